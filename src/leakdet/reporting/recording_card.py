"""Recordings as rows that are seen and heard: their spectrogram, timeline and player."""

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, UInt8

from leakdet.acoustics.clip import Clip, MelColumns
from leakdet.evaluation.coverage import REASONS
from leakdet.evaluation.scored_recordings import ScoredRecordings, timeline_points

LEVELS = 48
MAX_AUDIO_BYTES = 6_000_000  # of all sounds of a page together
MAX_COLUMNS = 400
LEAST_APART = 11.0  # percent of the picture's height, between texts that do not touch
MAX_TIME_TICKS = 7


def data_uri(content: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode('ascii')}"


def mel_png(level_db: Float[np.ndarray, "M columns"]) -> bytes:
    """A PNG of at most 400 columns: low bands at the bottom, loud is bright."""
    columns = level_db.shape[1]
    if columns > MAX_COLUMNS:
        starts = np.linspace(0, columns, MAX_COLUMNS, endpoint=False).astype(np.int64)
        counts = np.diff(np.append(starts, columns))
        level_db = np.add.reduceat(level_db, starts, axis=1) / counts
    low, high = np.percentile(level_db, [1, 99])
    scaled = np.clip((level_db - low) / max(float(high - low), 1e-6), 0.0, 1.0)
    return palette_png(np.rint(scaled[::-1] * (LEVELS - 1)).astype(np.uint8))


def palette_png(index: UInt8[np.ndarray, "rows columns"]) -> bytes:
    """A PNG of one byte per pixel with a palette (cividis) that suits any colour vision."""
    import matplotlib as mpl  # slow to import, and a page may have no picture
    from PIL import Image

    colours = (mpl.colormaps["cividis"](np.linspace(0, 1, LEVELS))[:, :3] * 255).astype(np.uint8)
    image, file = Image.fromarray(index), io.BytesIO()
    image.putpalette(colours.tobytes())
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def timeline_paths(prob: Float[np.ndarray, " W"], threshold: float) -> tuple[str, str]:
    """SVG path data of bars up to 100 high: windows below the threshold, and all others.

    Bars are areas: Chrome's PDF viewer leaves out most strokes that are scaled unequally.
    """
    below: list[str] = []
    above: list[str] = []
    for index, value in enumerate(prob):
        bar = f"M{index}.1 100v-{max(3, round(100 * float(value)))}h.8V100"
        (above if value >= threshold else below).append(bar)
    return "".join(below), "".join(above)


@dataclass(frozen=True)
class Tick:
    """A text beside an axis, at so many percent of its length."""

    percent: float
    text: str


def frequency_ticks(band_hz: Float[np.ndarray, " M"]) -> list[Tick]:
    """Round frequencies from bottom to top of a mel picture whose rows peak at `band_hz`.

    >>> [tick.text for tick in frequency_ticks(np.geomspace(300.0, 8000.0, 64))]
    ['500 Hz', '1 kHz', '2 kHz', '5 kHz']
    """
    rows = len(band_hz)
    round_hz = [base * 10.0**power for power in range(6) for base in (1, 2, 5)]
    inside = [hz for hz in round_hz if band_hz[0] <= hz <= band_hz[-1]]
    ticks = [
        Tick(
            100 * (float(np.interp(hz, band_hz, np.arange(rows))) + 0.5) / rows,
            f"{hz / 1000:g} kHz" if hz >= 1000 else f"{hz:g} Hz",
        )
        for hz in inside
    ]
    return _apart(ticks, LEAST_APART)


def time_ticks(duration_s: float) -> list[Tick]:
    """Round seconds, at most seven, from 0 on.

    >>> [tick.text for tick in time_ticks(5.0)]
    ['0 s', '1 s', '2 s', '3 s', '4 s', '5 s']
    """
    steps = (base * 10.0**power for power in range(-2, 6) for base in (1, 2, 5))
    step = next(step for step in steps if duration_s / step < MAX_TIME_TICKS)
    count = int(duration_s / step + 1e-6) + 1
    return [Tick(100 * step * k / duration_s, f"{step * k:g} s") for k in range(count)]


def _apart(ticks: list[Tick], least: float) -> list[Tick]:
    """The highest tick, and of those below it the ones that do not touch."""
    kept: list[Tick] = []
    for tick in reversed(ticks):
        if not kept or kept[-1].percent - tick.percent >= least:
            kept.append(tick)
    return kept[::-1]


@dataclass(frozen=True)
class Picture:
    """A mel as a data URI, with its axes as far as seconds and frequencies are known.

    `has_timeline` is false where it shows only the beginning of the recording.
    """

    uri: str
    note: str
    has_timeline: bool = True
    hz_ticks: Sequence[Tick] = ()
    s_ticks: Sequence[Tick] = ()

    @classmethod
    def drawn(cls, mel: MelColumns, duration_s: float | None) -> "Picture":
        """The picture of a mel, of a recording of `duration_s` if known."""
        uri, note = data_uri(mel_png(mel.level_db), "image/png"), "bright is loud"
        if mel.duration_s is None or mel.band_hz is None:
            return cls(uri, f"window after window; low bands at the bottom, {note}")
        whole = duration_s is None or mel.duration_s >= duration_s / 2
        note += "" if whole else f"; the first {mel.duration_s:.0f} of {duration_s:.0f} s"
        return cls(uri, note, whole, frequency_ticks(mel.band_hz), time_ticks(mel.duration_s))


@dataclass(frozen=True)
class Sound:
    """A clip as a data URI, and which piece of the recording it is."""

    uri: str
    note: str

    @classmethod
    def of_clip(cls, clip: Clip) -> "Sound":
        stop_s = clip.start_s + clip.duration_s
        note = f"plays seconds {clip.start_s:.1f} to {stop_s:.1f}, at {clip.gain_db:+.0f} dB"
        return cls(data_uri(clip.content, clip.media_type), note)


@dataclass(frozen=True)
class Card:
    """A recording on a page: its windows over time, picture and sound, and why it is there.

    `facts` are shown, blank ones left out. `below` and `above` are the paths of `bars` windows.
    """

    name: str
    why: str
    facts: Mapping[str, str]
    threshold: float
    windows: int
    leak_windows: int
    bars: int
    below: str
    above: str
    picture: Picture | None
    sound: Sound | None
    played: Tick | None = None  # where the sound begins in the picture, and its width in percent


def _played(mel: MelColumns | None, clip: Clip | None) -> Tick | None:
    """Where in the picture of a mel the clip lies; None where the times are unknown, or outside."""
    if mel is None or clip is None or not mel.duration_s or clip.start_s >= mel.duration_s:
        return None
    width = min(clip.duration_s, mel.duration_s - clip.start_s) / mel.duration_s
    return Tick(100 * clip.start_s / mel.duration_s, f"{100 * width:.1f}")


class Cards:
    """Makes the cards of a page, with sounds up to 6 MB; `left_out` counts those that have none."""

    def __init__(self) -> None:
        self._bytes_left = MAX_AUDIO_BYTES
        self.left_out = 0

    @property
    def is_full(self) -> bool:
        """True if no further sound has room."""
        return self.left_out > 0

    def card(
        self,
        name: str,
        threshold: float,
        *,
        why: str = "",
        facts: Mapping[str, str] | None = None,
        window_prob: Float[np.ndarray, " W"] | None = None,
        mel: MelColumns | None = None,
        duration_s: float | None = None,
        clip: Clip | None = None,
    ) -> Card:
        """A recording with the leak probabilities of its windows in order, if known."""
        prob = np.empty(0) if window_prob is None else window_prob
        timeline = timeline_points(prob)
        below, above = timeline_paths(timeline, threshold)
        sound = None if clip is None else self._sound(clip)
        return Card(
            name,
            why,
            facts or {},
            threshold,
            len(prob),
            int((prob >= threshold).sum()),
            len(timeline),
            below,
            above,
            None if mel is None else Picture.drawn(mel, duration_s),
            sound,
            _played(mel, clip) if sound else None,
        )

    def _sound(self, clip: Clip) -> Sound | None:
        if self.is_full or len(clip.content) > self._bytes_left:
            self.left_out += 1
            return None
        self._bytes_left -= len(clip.content)
        return Sound.of_clip(clip)


MAX_ROWS = 1000
MAX_ROWS_WITH_MEDIA = 24
CLIP_S = 10.0

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
    groups: dict[str, str]
    flags: str
    reason: str  # why predict leaves it undecided, "": it decides
    card: Card

    @property
    def has_media(self) -> bool:
        return self.card.picture is not None or self.card.sound is not None

    @property
    def margin(self) -> float:
        return abs(self.score - self.card.threshold)

    @property
    def undecided(self) -> str:
        """The reason in words, and what it would have been; "" where predict decides."""
        side = f"by its side of the threshold: {OUTCOMES[self.outcome].lower()}"
        return f"{REASONS[self.reason]}; {side}" if self.reason else ""

    @property
    def outcome_name(self) -> str:
        return "Undecided" if self.reason else OUTCOMES[self.outcome]

    @property
    def search(self) -> str:
        texts = [self.recording, self.label, self.split, self.outcome_name, self.flags]
        texts.append(self.undecided)
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
        reasons = {} if rows else rows_with_media(scored, order)
        cards = dict(cards_with_media(scored, reasons))
        listed = _listed(order, list(cards), MAX_ROWS - len(rows))
        start = len(rows)
        rows += [
            _row(scored, row, start + place, cards.get(row) or _card(Cards(), scored, row))
            for place, row in enumerate(listed)
        ]
    return rows


def _listed(order: Int[np.ndarray, " R"], always: list[int], room: int) -> list[int]:
    """At most `room` rows in this order: all of `always`, and the first of the others."""
    chosen = set(always[:room])
    others = [row for row in order[:MAX_ROWS].tolist() if row not in chosen]
    chosen |= set(others[: room - len(chosen)])
    return [row for row in order.tolist() if row in chosen]


def _row(scored: ScoredRecordings, row: int, rank: int, card: Card) -> Row:
    decided, leak = bool(scored.decision[row]), bool(scored.is_leak[row])
    outcome = ("found" if decided else "missed") if leak else ("alarm" if decided else "quiet")
    return Row(
        rank=rank,
        split=scored.name,
        recording=str(scored.recording_id[row]),
        label=str(scored.label[row]),
        outcome=outcome,
        score=float(scored.score[row]),
        groups={
            column: str(values[row]) for column, values in scored.groups.items() if values[row]
        },
        flags=str(scored.flags[row]) if scored.flags is not None else "",
        reason=str(scored.reason[row]) if scored.reason is not None else "",
        card=card,
    )


def _card(cards: Cards, scored: ScoredRecordings, row: int, **media: Any) -> Card:
    probs = scored.window_prob[scored.windows_of(row)]
    name, threshold = str(scored.recording_id[row]), float(scored.threshold[row])
    return cards.card(name, threshold, window_prob=probs, **media)


def cards_with_media(
    scored: ScoredRecordings, rows: Mapping[int, str]
) -> Iterator[tuple[int, Card]]:
    """The cards of those rows that have a picture or, up to 6 MB, a sound."""
    cards, durations_s = Cards(), scored.duration_s
    if scored.media is None:
        return
    for row, why in rows.items():
        mel = scored.media.mel(row)
        start_s = _clip_start_s(scored, row)
        clip = None if cards.is_full else scored.media.clip(row, start_s, CLIP_S)
        duration_s = None if durations_s is None else float(durations_s[row])
        card = _card(cards, scored, row, why=why, mel=mel, duration_s=duration_s, clip=clip)
        if card.picture or card.sound:
            yield row, card


def _clip_start_s(scored: ScoredRecordings, row: int) -> float:
    """A few seconds before the window of the highest leak probability."""
    if scored.window_start_s is None:
        return 0.0
    windows = scored.windows_of(row)
    highest = int(np.argmax(scored.window_prob[windows]))
    return max(0.0, float(scored.window_start_s[windows][highest]) - CLIP_S / 2)
