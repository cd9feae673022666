"""Odd sound files of every kind: what is read of them, beside what they hold and what FFmpeg reads.

`python scripts/odd_audio.py [--every N] [--out TABLE.csv]` makes formats x subtypes x rates x
lengths x damage, reads each, and exits with 1 if a file is read in part without a flag or an error.
"""

import argparse
import csv
import io
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import soundfile

from leakdet.acoustics.audio import SoundStream
from leakdet.acoustics.mp3_frames import parse_frame
from leakdet.config import SignalConfig
from leakdet.errors import InputError

FORMATS = ("WAV", "WAVEX", "RF64", "W64", "AIFF", "AU", "CAF", "NIST", "FLAC", "OGG", "MP3")
STREAMS = ("FLAC", "OGG", "MP3")
RATES_HZ, LENGTHS = (8000, 16000, 48000), (7001, 60001)
SLACK = {"MP3": 4 * 1152, "OGG": 1}  # sample points that encoders add or leave out at the ends
# these fill their last block, and some of their headers do not say how far
BLOCK_CODES = tuple(
    name
    for name in soundfile.available_subtypes()
    if name.endswith("ADPCM") or name[:4] in ("ALAC", "G721", "G723", "NMS_", "GSM6", "DWVW")
)
BLOCK_SLACK = 4096


@dataclass
class Row:
    """One file and what became of it; `fault` is empty where nothing is wrong."""

    name: str
    held: int  # sample points that were put into it, before it was damaged
    decoded: int
    ffmpeg: int | None
    flags: str
    error: str
    fault: str = ""


def _sound(frames: int) -> np.ndarray:
    noise = 0.1 * np.random.default_rng(frames).standard_normal(frames)
    return np.convolve(noise, [1.0, -0.6], "same")


def _encoded(kind: str, subtype: str, rate_hz: int, frames: int) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, _sound(frames), rate_hz, format=kind, subtype=subtype)
    return file.getvalue()


def _with_size(content: bytes, size: int) -> bytes:
    at = content.index(b"data") + 4
    return content[:at] + struct.pack("<I", size) + content[at + 4 :]


def _without_total(content: bytes) -> bytes:
    return content[:21] + bytes([content[21] & 0xF0]) + bytes(4) + content[26:]


def _without_count(content: bytes) -> bytes:
    first = parse_frame(content[:4])
    return content[first.size :] if first else content


def _overwritten(content: bytes) -> bytes:
    start, length = len(content) // 2, min(3000, len(content) // 4)
    noise = np.random.default_rng(0).bytes(length)
    return content[:start] + noise + content[start + length :]


def _damages(kind: str, subtype: str) -> dict[str, tuple[Callable[[bytes], bytes], int]]:
    """By name: what is done to the bytes, and how often the sound is in them then."""
    damages: dict[str, tuple[Callable[[bytes], bytes], int]] = {
        "whole": (lambda content: content, 1),
        "cut": (lambda content: content[: len(content) * 6 // 10], 1),
        "zeros behind": (lambda content: content + bytes(2000), 1),
    }
    if kind in STREAMS:
        damages["joined"] = (lambda content: content + content, 2)
        damages["overwritten"] = (_overwritten, 1)
    if kind in ("WAV", "WAVEX"):
        for size in (0, 0xFFFFFFFF, 0x7FFFF000, 2048):
            damages[f"size {size:#x}"] = (partial(_with_size, size=size), 1)
    if kind == "FLAC":
        damages["no total"] = (_without_total, 1)
    if kind == "MP3":
        damages["no count"] = (_without_count, 1)
    return damages


def odd_files() -> Iterator[tuple[str, str, str, int, bytes]]:
    """Name, format, subtype, sample points that were put in, bytes."""
    for kind in FORMATS:
        for subtype in soundfile.available_subtypes(kind):
            for rate_hz in RATES_HZ:
                for frames in LENGTHS:
                    try:
                        content = _encoded(kind, subtype, rate_hz, frames)
                        soundfile.info(io.BytesIO(content))
                    except (soundfile.LibsndfileError, ValueError):
                        continue  # libsndfile does not write it
                    for damage, (change, copies) in _damages(kind, subtype).items():
                        if damage.startswith("size") and subtype in BLOCK_CODES:
                            continue
                        name = f"{kind} {subtype} {rate_hz} Hz {frames} {damage}"
                        yield name, kind, subtype, frames * copies, change(content)


def judged(name: str, kind: str, subtype: str, held: int, path: Path) -> Row:
    """Read one file and compare: a part that no flag or error names is a fault."""
    stream = SoundStream(path, SignalConfig())
    row = Row(name, held, 0, ffmpeg_frames(path), "", "")
    try:
        for _ in stream:
            pass
        row.decoded = stream.facts.source_frames
        flags = [flag for flag in stream.facts.flags if flag not in ("narrow_band", "clipped")]
        row.flags = ",".join(flags)
    except InputError as error:
        row.error = str(error)
        return row
    slack = BLOCK_SLACK if subtype in BLOCK_CODES else SLACK.get(kind, 1)
    if not row.flags and row.decoded < held - slack:
        row.fault = "read in part without a flag"
    elif row.decoded > held + slack:
        row.fault = "more than it holds"
    elif not row.flags and row.ffmpeg and abs(row.decoded - row.ffmpeg) > slack:
        row.fault = "" if abs(row.decoded - held) <= slack else "FFmpeg reads another length"
    return row


def ffmpeg_frames(path: Path) -> int | None:
    """Sample points that FFmpeg decodes; None where there is no FFmpeg, or it cannot."""
    if shutil.which("ffmpeg") is None:
        return None
    command = ["ffmpeg", "-v", "quiet", "-i", str(path), "-f", "s16le", "-ac", "1", "-"]
    answer = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return len(answer.stdout) // 2 or None


def table(every: int) -> list[Row]:
    """Rows of every `every`-th file."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, kind, subtype, held, content) in enumerate(odd_files()):
            if number % every == 0:
                path = Path(folder) / f"x.{kind.lower()}"
                path.write_bytes(content)
                rows.append(judged(name, kind, subtype, held, path))
    return rows


def main() -> int:
    command = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    command.add_argument("--every", type=int, default=1, help="only every N-th file")
    command.add_argument("--out", type=Path, help="write the table to this CSV file")
    arguments = command.parse_args()
    rows = table(arguments.every)
    if arguments.out:
        with arguments.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*asdict(rows[0])])
            writer.writeheader()
            writer.writerows(asdict(row) for row in rows)
    faults = [row for row in rows if row.fault]
    for row in faults:
        print(f"{row.name}: {row.fault}: {row.decoded} of {row.held} (FFmpeg {row.ffmpeg})")
    flagged = sum(1 for row in rows if row.flags)
    failed = sum(1 for row in rows if row.error)
    print(f"{len(rows)} files: {flagged} flagged, {failed} refused, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
