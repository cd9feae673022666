"""Small pictures without a plotting library: a mel as a palette PNG, a timeline as SVG paths."""

import base64
import struct
import zlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8

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
