"""Odd sound files of every kind: what is read of them, beside what they hold and what FFmpeg reads.

`python scripts/odd_audio.py [--every N] [--out TABLE.csv]` makes formats x subtypes x rates x
channels x lengths x damage, reads each, and exits with 1 where a file is read in part, or otherwise
than FFmpeg reads it, without a flag, an error or a reason.
"""

import argparse
import csv
import io
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path

import numpy as np
import soundfile

from leakdet.acoustics.audio import SoundStream, read_header
from leakdet.acoustics.containers.mp3 import parse_frame
from leakdet.config import SignalConfig
from leakdet.core.errors import InputError

# RAW has no header, SD2 keeps it in a second file
FORMATS = [kind for kind in soundfile.available_formats() if kind not in ("RAW", "SD2")]
STREAMS = ("FLAC", "OGG", "MP3")
DAMAGED_RATES_HZ, LENGTHS = (8000, 16000, 48000), (7001, 60001)
WHOLE_RATES_HZ = (4000, 11025, 22050, 32000, 44100, 96000, 192000)
SLACK = {"MP3": 4 * 1152, "PAF": 10}  # sample points that encoders add or leave out at the ends
# these fill their last block, and some of their headers do not say how far
BLOCK_CODES = tuple(
    name
    for name in soundfile.available_subtypes()
    if name.endswith("ADPCM") or name[:4] in ("ALAC", "G721", "G723", "NMS_", "GSM6", "DWVW")
)
BLOCK_SLACK = 4096
# decoders of these round as they like
LOSSY = ("VORBIS", "OPUS", "MPEG_LAYER_III", "GSM610", "IMA_ADPCM", "MS_ADPCM")
OTHER_CODES = ("G721_32", "G723_24", "G723_40")  # FFmpeg takes them for G.726
ROUNDING, LOSSY_SHARE = 2.0**-15, 0.02


@dataclass
class Row:
    """One file and what became of it; `fault` is empty where nothing is wrong."""

    name: str
    kind: str
    held: int  # sample points that were put into it, before it was damaged
    decoded: int = 0
    ffmpeg: int | None = None
    difference: float | None = None  # from FFmpeg's samples; of lossy subtypes its share in level
    flags: str = ""
    error: str = ""
    reason: str = ""  # why another length than FFmpeg's is right
    fault: str = ""


@dataclass(frozen=True)
class OddFile:
    """A file to be made and read."""

    kind: str
    subtype: str
    rate_hz: int
    channels: int
    frames: int
    damage: str = "whole"
    change: Callable[[bytes], bytes] = bytes
    copies: int = 1  # how often the sound is in it

    @property
    def name(self) -> str:
        what = f"{self.kind} {self.subtype} {self.rate_hz} Hz, {self.channels} channels"
        return f"{what}, {self.frames}, {self.damage}"

    def content(self) -> bytes | None:
        """Its bytes; None where libsndfile does not write it, or cannot read what it wrote."""
        noise = 0.1 * np.random.default_rng(self.frames).standard_normal(
            (self.frames, self.channels)
        )
        noise[1:] -= 0.6 * noise[:-1]
        file = io.BytesIO()
        try:
            soundfile.write(file, noise, self.rate_hz, format=self.kind, subtype=self.subtype)
            soundfile.info(io.BytesIO(file.getvalue()))
        except (soundfile.LibsndfileError, ValueError):
            return None
        return self.change(file.getvalue())


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
        "cut": (lambda content: content[: len(content) * 6 // 10], 1),
        "zeros behind": (lambda content: content + bytes(2000), 1),
    }
    if kind in STREAMS:
        damages["joined"] = (lambda content: content + content, 2)
        damages["overwritten"] = (_overwritten, 1)
    if kind in ("WAV", "WAVEX") and subtype not in BLOCK_CODES:
        for size in (0, 0xFFFFFFFF, 0x7FFFF000, 2048):
            damages[f"size {size:#x}"] = (partial(_with_size, size=size), 1)
    if kind == "FLAC":
        damages["no total"] = (_without_total, 1)
    if kind == "MP3":
        damages["no count"] = (_without_count, 1)
    return damages


def odd_files() -> Iterator[OddFile]:
    """Every format, subtype and rate that libsndfile writes; damaged ones at some rates."""
    for kind in FORMATS:
        for subtype in soundfile.available_subtypes(kind):
            for rate_hz in (*DAMAGED_RATES_HZ, *WHOLE_RATES_HZ):
                for channels, frames in ((1, LENGTHS[0]), (1, LENGTHS[1]), (2, LENGTHS[0])):
                    what = (kind, subtype, rate_hz, channels, frames)
                    yield OddFile(*what)
                    if rate_hz in DAMAGED_RATES_HZ and channels == 1:
                        for damage, how in _damages(kind, subtype).items():
                            yield OddFile(*what, damage, *how)


def judged(odd: OddFile, path: Path) -> Row:
    """Read one file and compare: a part that nothing names is a fault, and so is another sound."""
    held = odd.frames * odd.copies
    row = Row(odd.name, odd.kind, held)
    try:
        rate_hz, channels, *_ = read_header(path)
        stream = SoundStream(path, SignalConfig(sample_rate_hz=rate_hz, channels="first"))
        sound = np.concatenate([np.empty(0, np.float32), *stream])
    except InputError as error:
        row.error = str(error)
        row.fault = "refused although it is whole" if odd.damage == "whole" else ""
        return row
    row.decoded = stream.facts.source_frames
    ignored = ("narrow_band", "clipped", "over_full_scale")
    row.flags = ",".join(flag for flag in stream.facts.flags if flag not in ignored)
    told = row.flags not in ("", "unchecked")
    other = ffmpeg_sound(path, channels)
    row.ffmpeg = None if other is None else len(other)
    slack = BLOCK_SLACK if odd.subtype in BLOCK_CODES else SLACK.get(odd.kind, 1)
    if not row.flags and row.decoded < held - slack:
        row.fault = "read in part without a flag"
    elif row.decoded > held + slack and "unchecked" not in row.flags:
        row.fault = "more than it holds"
    elif odd.damage == "whole" and told:
        row.fault = "flagged although it is whole"
    elif other is not None and not told:
        _compare(row, odd, sound, other, slack)
    return row


def _compare(row: Row, odd: OddFile, sound: np.ndarray, other: np.ndarray, slack: int) -> None:
    """Compare length and samples with FFmpeg's."""
    if abs(len(sound) - len(other)) > slack:
        row.reason = f"FFmpeg reads {len(other)} sample points; it holds {row.held}"
    if len(sound) != len(other) or odd.subtype in OTHER_CODES:
        return
    difference = np.abs(sound - other)
    if odd.subtype in LOSSY:
        row.difference = float(np.std(difference) / np.std(other))
    else:
        row.difference = float(difference.max())
    if row.difference > (LOSSY_SHARE if odd.subtype in LOSSY else ROUNDING):
        row.fault = "other samples than FFmpeg's"


def ffmpeg_sound(path: Path, channels: int) -> np.ndarray | None:
    """The first channel as FFmpeg decodes it; None where there is no FFmpeg, or it cannot."""
    if shutil.which("ffmpeg") is None:
        return None
    command = ["ffmpeg", "-v", "quiet", "-i", str(path), "-f", "f32le", "-c:a", "pcm_f32le", "-"]
    answer = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    samples = np.frombuffer(answer.stdout, "<f4")
    return samples.reshape(-1, channels)[:, 0] if len(samples) else None


def table(every: int) -> list[Row]:
    """Rows of every `every`-th file."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for number, odd in enumerate(odd_files()):
            content = odd.content() if number % every == 0 else None
            if content is not None:
                path = Path(folder) / f"x.{odd.kind.lower()}"
                path.write_bytes(content)
                rows.append(judged(odd, path))
    return rows


def summary(rows: list[Row]) -> Iterator[str]:
    """A line for each format, and their sum."""
    of_kind: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        of_kind[row.kind].append(row)
    for kind, some in (*of_kind.items(), ("all", rows)):
        counts = (
            ("flagged", sum(bool(row.flags) for row in some)),
            ("refused", sum(bool(row.error) for row in some)),
            ("of FFmpeg's length", sum(row.decoded == row.ffmpeg for row in some)),
            ("of its samples", sum(row.difference is not None for row in some)),
            ("of another length with a reason", sum(bool(row.reason) for row in some)),
            ("faults", sum(bool(row.fault) for row in some)),
        )
        yield f"{kind}: {len(some)} files, " + ", ".join(f"{n} {what}" for what, n in counts)


def main() -> int:
    command = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    command.add_argument("--every", type=int, default=1, help="only every N-th file")
    command.add_argument("--out", type=Path, help="write the table to this CSV file")
    arguments = command.parse_args()
    rows = table(arguments.every)
    if arguments.out:
        with arguments.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(Row)])
            writer.writeheader()
            writer.writerows(asdict(row) for row in rows)
    faults = [row for row in rows if row.fault]
    for row in faults:
        print(
            f"{row.name}: {row.fault}: {row.decoded} of {row.held} (FFmpeg {row.ffmpeg}, "
            f"difference {row.difference}) {row.flags}{row.error}"
        )
    print(*summary(rows), sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
