"""Recordings as rows that are seen and heard: their spectrogram, timeline and player."""

import base64
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int, UInt8

from leakdet.evaluation.scored_recordings import MelColumns, ScoredRecordings

LEVELS = 48
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

    colours = (mpl.colormaps["cividis"](np.linspace(0, 1, LEVELS))[:, :3] * 255).astype(np.uint8)
    rows, columns = index.shape
    # every row starts with its filter type, 0
    raw = np.concatenate([np.zeros((rows, 1), np.uint8), index], axis=1).tobytes()
    header = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)
    parts = [
        (b"IHDR", header),
        (b"PLTE", colours.tobytes()),
        (b"IDAT", zlib.compress(raw, 9)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


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


@runtime_checkable
class SoundClip(Protocol):
    """A piece of a recording as a sound file that browsers play (`acoustics.clip.Clip`)."""

    @property
    def content(self) -> bytes: ...
    @property
    def start_s(self) -> float: ...
    @property
    def duration_s(self) -> float: ...
    @property
    def gain_db(self) -> float: ...
    @property
    def media_type(self) -> str: ...


@dataclass
class RowMedia:
    """A mel picture and a sound as data URIs, if any, what they show and why they are here.

    `timeline` is false where the picture shows only the beginning of the recording.
    """

    why: str
    mel: str | None = None
    timeline: bool = True
    hz_ticks: Sequence[Tick] = ()
    s_ticks: Sequence[Tick] = ()
    mel_note: str = ""
    audio: str | None = None
    audio_note: str = ""

    def draw(self, mel: MelColumns, duration_s: float | None) -> None:
        """Add the picture with its axes, as far as its seconds and frequencies are known."""
        self.mel = data_uri(mel_png(mel.level_db), "image/png")
        self.mel_note = "bright is loud"
        if mel.duration_s is None or mel.band_hz is None:
            self.mel_note = f"window after window; low bands at the bottom, {self.mel_note}"
            return
        self.hz_ticks, self.s_ticks = frequency_ticks(mel.band_hz), time_ticks(mel.duration_s)
        if duration_s is not None and mel.duration_s < duration_s / 2:
            self.timeline = False
            self.mel_note += f"; the first {mel.duration_s:.0f} of {duration_s:.0f} s"

    def add_sound(self, clip: SoundClip) -> None:
        """Add the sound of a clip, and say which piece of the recording it is."""
        self.audio = data_uri(clip.content, clip.media_type)
        stop_s = clip.start_s + clip.duration_s
        self.audio_note = (
            f"seconds {clip.start_s:.1f} to {stop_s:.1f}, played at {clip.gain_db:+.0f} dB"
        )


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
