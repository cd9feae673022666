"""The report's table of recordings: which are shown, in which order, and with what to look at and listen to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from leakdet.evaluation.scored_recordings import ScoredRecordings
from leakdet.reporting.small_pictures import data_uri, mel_png, timeline_paths

MOST_ROWS = 1000
MOST_EVIDENCE = 24
MOST_AUDIO_BYTES = 6_000_000
CLIP_S = 10.0

OUTCOMES = {
    "missed": "Missed leak",
    "alarm": "False alarm",
    "found": "Leak found",
    "quiet": "Rightly quiet",
}


@dataclass
class Look:
    """A mel picture and a piece of sound, as data URIs, and where in the recording the sound is."""

    mel: str | None = None
    band: str = ""
    audio: str | None = None
    heard: str = ""


@dataclass
class Row:
    """A recording as the template shows it."""

    rank: int
    split: str
    recording: str
    label: str
    outcome: str
    score: float
    threshold: float
    windows: int
    leak_windows: int
    bars: int
    below: str
    above: str
    groups: dict[str, str]
    flags: str
    look: Look | None = None

    @property
    def outcome_name(self) -> str:
        return OUTCOMES[self.outcome]

    @property
    def search(self) -> str:
        return " ".join(
            [
                self.recording,
                self.label,
                self.split,
                self.outcome_name,
                *self.groups.values(),
                self.flags,
            ]
        ).lower()


def severity_order(scored: ScoredRecordings) -> np.ndarray:
    """Rows, the surest mistakes first, then what is right, the least sure first."""
    margin = np.abs(scored.score - scored.threshold)
    return np.lexsort((np.where(scored.wrong, -margin, margin), ~scored.wrong))


def informative(
    scored: ScoredRecordings, order: np.ndarray, most: int = MOST_EVIDENCE
) -> list[int]:
    """Rows worth a look: up to two thirds mistakes, the two surest of each kind that is right, then the least sure."""
    mistakes = [int(row) for row in order if scored.wrong[row]]
    right = order[~scored.wrong[order]][::-1]
    surest = [
        int(row) for leak in (True, False) for row in right[scored.is_leak[right] == leak][:2]
    ]
    chosen = mistakes[: 2 * most // 3] + surest
    rest = [int(row) for row in order[: 2 * most] if int(row) not in set(chosen)]
    return (chosen + rest)[:most]


def report_rows(recordings: Mapping[str, ScoredRecordings]) -> list[Row]:
    """Up to 1000 rows, the judged split (the last) first; memory and page do not grow with what is left out."""
    rows: list[Row] = []
    for scored in reversed(list(recordings.values())):
        order = severity_order(scored)
        looks = _looks(scored, informative(scored, order)) if not rows else {}
        listed = _listed(order, list(looks), MOST_ROWS - len(rows))
        rows += [
            _row(scored, row, len(rows) + place, looks.get(row)) for place, row in enumerate(listed)
        ]
    return rows


def _listed(order: np.ndarray, first: list[int], room: int) -> list[int]:
    """At most `room` rows in this order: all of `first`, though they may stand at the end of very many, then from its start."""
    chosen = set(first[:room])
    for row in order.tolist():
        if len(chosen) >= room:
            break
        chosen.add(row)
    return [row for row in order.tolist() if row in chosen]


def _row(scored: ScoredRecordings, row: int, rank: int, look: Look | None) -> Row:
    threshold = float(scored.threshold[row])
    timeline = scored.timeline(row)
    below, above = timeline_paths(timeline, threshold)
    prob = scored.window_prob[scored.windows_of(row)]
    decided, leak = bool(scored.decision[row]), bool(scored.is_leak[row])
    outcome = ("found" if decided else "missed") if leak else ("alarm" if decided else "quiet")
    return Row(
        rank=rank,
        split=scored.name,
        recording=str(scored.recording_id[row]),
        label=str(scored.label[row]),
        outcome=outcome,
        score=float(scored.score[row]),
        threshold=threshold,
        windows=len(prob),
        leak_windows=int((prob >= threshold).sum()),
        bars=len(timeline),
        below=below,
        above=above,
        groups={
            column: str(values[row]) for column, values in scored.groups.items() if values[row]
        },
        flags=str(scored.flags[row]) if scored.flags is not None else "",
        look=look,
    )


def _looks(scored: ScoredRecordings, rows: list[int]) -> dict[int, Look]:
    return dict(_each_look(scored, rows))


def _each_look(scored: ScoredRecordings, rows: list[int]) -> Iterator[tuple[int, Look]]:
    media, budget = scored.media, MOST_AUDIO_BYTES
    if media is None:
        return
    for row in rows:
        look = Look()
        mel = media.mel(row)
        if mel is not None:
            look.mel = data_uri(mel_png(mel.level_db), "image/png")
            look.band = _band(mel.duration_s, mel.low_hz, mel.high_hz)
        clip = media.clip(row, _interesting_s(scored, row), CLIP_S) if budget > 0 else None
        if clip is not None:
            look.audio = data_uri(clip.content, clip.media_type)
            budget -= len(clip.content)
            stop_s = clip.start_s + clip.duration_s
            look.heard = (
                f"seconds {clip.start_s:.1f} to {stop_s:.1f}, played {clip.gain_db:+.0f} dB"
            )
        if look.mel or look.audio:
            yield row, look


def _band(duration_s: float | None, low_hz: float | None, high_hz: float | None) -> str:
    if duration_s is None or low_hz is None or high_hz is None:
        return "window after window; low bands at the bottom, bright is loud"
    return f"0 to {duration_s:.1f} s, {low_hz:.0f} Hz (bottom) to {high_hz:.0f} Hz (top), bright is loud"


def _interesting_s(scored: ScoredRecordings, row: int) -> float:
    """A few seconds before the window that sounds most like a leak."""
    if scored.window_start_s is None:
        return 0.0
    windows = scored.windows_of(row)
    loudest = int(np.argmax(scored.window_prob[windows]))
    return max(0.0, float(scored.window_start_s[windows][loudest]) - CLIP_S / 2)
