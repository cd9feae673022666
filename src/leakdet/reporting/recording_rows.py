"""The report's table of recordings: which are shown, in which order, with which media."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from leakdet.evaluation.scored_recordings import MelColumns, ScoredRecordings
from leakdet.reporting.small_pictures import data_uri, mel_png, timeline_paths

MAX_ROWS = 1000
MAX_ROWS_WITH_MEDIA = 24
MAX_AUDIO_BYTES = 6_000_000
CLIP_S = 10.0

OUTCOMES = {
    "missed": "Missed leak",
    "alarm": "False alarm",
    "found": "Leak found",
    "quiet": "True negative",
}


@dataclass
class RowMedia:
    """A mel picture and a sound as data URIs, if any, and what they show in words."""

    mel: str | None = None
    mel_note: str = ""
    audio: str | None = None
    audio_note: str = ""


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
    media: RowMedia | None

    @property
    def outcome_name(self) -> str:
        return OUTCOMES[self.outcome]

    @property
    def search(self) -> str:
        texts = [self.recording, self.label, self.split, self.outcome_name, self.flags]
        return " ".join([*texts, *self.groups.values()]).lower()


def severity_order(scored: ScoredRecordings) -> Int[np.ndarray, " R"]:
    """Rows sorted: the clearest errors first, then what is right, the least clear first."""
    margin = np.abs(scored.score - scored.threshold)
    return np.lexsort((np.where(scored.wrong, -margin, margin), ~scored.wrong))


def rows_with_media(
    scored: ScoredRecordings, order: Int[np.ndarray, " R"], most: int = MAX_ROWS_WITH_MEDIA
) -> list[int]:
    """Rows to show with media: at most two thirds errors, the clearest and least clear others."""
    errors: list[int] = order[scored.wrong[order]].tolist()
    right = order[~scored.wrong[order]][::-1]
    clearest = [right[scored.is_leak[right] == leak][:2] for leak in (True, False)]
    chosen: list[int] = errors[: 2 * most // 3] + np.concatenate(clearest).tolist()
    rest = [row for row in order[: 2 * most].tolist() if row not in chosen]
    return (chosen + rest)[:most]


def report_rows(recordings: Mapping[str, ScoredRecordings]) -> list[Row]:
    """Up to 1000 rows, those of the judged split (the last) first and with media."""
    rows: list[Row] = []
    for scored in reversed(list(recordings.values())):
        order = severity_order(scored)
        media = {} if rows else dict(_media(scored, rows_with_media(scored, order)))
        listed = _listed(order, list(media), MAX_ROWS - len(rows))
        start = len(rows)
        rows += [
            _row(scored, row, start + place, media.get(row)) for place, row in enumerate(listed)
        ]
    return rows


def _listed(order: Int[np.ndarray, " R"], always: list[int], room: int) -> list[int]:
    """At most `room` rows in this order: all of `always`, and the first of the others."""
    chosen = set(always[:room])
    others = [row for row in order[:MAX_ROWS].tolist() if row not in chosen]
    chosen |= set(others[: room - len(chosen)])
    return [row for row in order.tolist() if row in chosen]


def _row(scored: ScoredRecordings, row: int, rank: int, media: RowMedia | None) -> Row:
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
        media=media,
    )


def _media(scored: ScoredRecordings, rows: Sequence[int]) -> Iterator[tuple[int, RowMedia]]:
    """Pictures and, up to 6 MB, sounds of those rows that have any."""
    if scored.media is None:
        return
    bytes_left = MAX_AUDIO_BYTES
    for row in rows:
        media = RowMedia()
        mel = scored.media.mel(row)
        if mel is not None:
            media.mel = data_uri(mel_png(mel.level_db), "image/png")
            media.mel_note = _mel_note(mel)
        start_s = _clip_start_s(scored, row)
        clip = scored.media.clip(row, start_s, CLIP_S) if bytes_left > 0 else None
        if clip is not None:
            media.audio = data_uri(clip.content, clip.media_type)
            bytes_left -= len(clip.content)
            stop_s = clip.start_s + clip.duration_s
            media.audio_note = (
                f"seconds {clip.start_s:.1f} to {stop_s:.1f}, played at {clip.gain_db:+.0f} dB"
            )
        if media.mel or media.audio:
            yield row, media


def _mel_note(mel: MelColumns) -> str:
    if mel.duration_s is None or mel.low_hz is None or mel.high_hz is None:
        return "window after window; low bands at the bottom, bright is loud"
    return (
        f"0 to {mel.duration_s:.1f} s, {mel.low_hz:.0f} Hz (bottom) to {mel.high_hz:.0f} Hz (top), "
        "bright is loud"
    )


def _clip_start_s(scored: ScoredRecordings, row: int) -> float:
    """A few seconds before the window of the highest leak probability."""
    if scored.window_start_s is None:
        return 0.0
    windows = scored.windows_of(row)
    highest = int(np.argmax(scored.window_prob[windows]))
    return max(0.0, float(scored.window_start_s[windows][highest]) - CLIP_S / 2)
