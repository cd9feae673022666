"""The report's table of recordings: which are shown, in which order, with which media."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from leakdet.evaluation.scored_recordings import ScoredRecordings
from leakdet.reporting.row_media import RowMedia
from leakdet.reporting.small_pictures import timeline_paths

MAX_ROWS = 1000
MAX_ROWS_WITH_MEDIA = 24
MAX_AUDIO_BYTES = 6_000_000
CLIP_S = 10.0
DOUBT = 0.1  # distance of a score from its threshold below which a verdict is doubtful

OUTCOMES = {
    "missed": "Missed leak",
    "alarm": "False alarm",
    "found": "Leak found",
    "quiet": "True negative",
}


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
    def margin(self) -> float:
        return abs(self.score - self.threshold)

    @property
    def doubtful(self) -> bool:
        return self.margin < DOUBT

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
) -> dict[int, str]:
    """The most telling rows, and why each is here.

    Up to two thirds are errors, the clearest ones; then come the two clearest correct verdicts of
    each kind, then those closest to the threshold, or further errors.
    """
    errors, right = order[scored.wrong[order]], order[~scored.wrong[order]]
    chosen = dict.fromkeys(errors[: 2 * most // 3].tolist(), "among the clearest errors")
    for leak, kind in ((True, "leaks found"), (False, "true negatives")):
        clearest = right[scored.is_leak[right] == leak][::-1][:2]
        chosen |= dict.fromkeys(clearest.tolist(), f"among the clearest {kind}")
    for row in order[: 2 * most].tolist():
        why = "an error" if scored.wrong[row] else "among the closest to the threshold"
        chosen.setdefault(row, why)
    return dict(list(chosen.items())[:most])


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


def _media(scored: ScoredRecordings, rows: Mapping[int, str]) -> Iterator[tuple[int, RowMedia]]:
    """Pictures and, up to 6 MB, sounds of those rows that have any."""
    if scored.media is None:
        return
    bytes_left = MAX_AUDIO_BYTES
    for row, why in rows.items():
        media = RowMedia(why)
        mel = scored.media.mel(row)
        if mel is not None:
            durations_s = scored.duration_s
            media.draw(mel, None if durations_s is None else float(durations_s[row]))
        start_s = _clip_start_s(scored, row)
        clip = scored.media.clip(row, start_s, CLIP_S) if bytes_left > 0 else None
        if clip is not None:
            media.add_sound(clip)
            bytes_left -= len(clip.content)
        if media.mel or media.audio:
            yield row, media


def _clip_start_s(scored: ScoredRecordings, row: int) -> float:
    """A few seconds before the window of the highest leak probability."""
    if scored.window_start_s is None:
        return 0.0
    windows = scored.windows_of(row)
    highest = int(np.argmax(scored.window_prob[windows]))
    return max(0.0, float(scored.window_start_s[windows][highest]) - CLIP_S / 2)
