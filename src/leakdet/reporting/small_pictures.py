"""Small pictures without a plotting library's overhead: a mel as a palette PNG, a timeline as two SVG paths."""

import base64
import struct
import zlib

import matplotlib as mpl
import numpy as np
from jaxtyping import Float, UInt8

LEVELS = 48
MOST_COLUMNS = 400


def data_uri(content: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode('ascii')}"


def mel_png(level_db: Float[np.ndarray, "M columns"]) -> bytes:
    """Low bands at the bottom, loud is bright, over the picture's own range but for its 1 % extremes. At most 400 columns."""
    columns = level_db.shape[1]
    if columns > MOST_COLUMNS:
        starts = np.linspace(0, columns, MOST_COLUMNS, endpoint=False).astype(np.int64)
        counts = np.diff(np.append(starts, columns))
        level_db = np.add.reduceat(level_db, starts, axis=1) / counts
    low, high = np.percentile(level_db, [1, 99])
    scaled = np.clip((level_db - low) / max(float(high - low), 1e-6), 0.0, 1.0)
    return palette_png(np.rint(scaled[::-1] * (LEVELS - 1)).astype(np.uint8))


def palette_png(index: UInt8[np.ndarray, "rows columns"]) -> bytes:
    """A PNG of one byte a pixel with a palette that is read alike with any colour vision and in grey."""
    colours = (mpl.colormaps["cividis"](np.linspace(0, 1, LEVELS))[:, :3] * 255).astype(np.uint8)
    rows, columns = index.shape
    # filter type 0 a row
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
    """Path data of bars 100 high and one wide: the windows below the threshold, and those that reach it."""
    below: list[str] = []
    above: list[str] = []
    for place, value in enumerate(prob):
        bar = f"M{place}.5 100v-{max(3, round(100 * float(value)))}"
        (above if value >= threshold else below).append(bar)
    return "".join(below), "".join(above)
