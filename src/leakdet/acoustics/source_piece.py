"""A piece of a recording as it was recorded: its own sample points, rate and channels, as WAV."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from jaxtyping import Shaped

from leakdet._remote import RemoteFile
from leakdet.acoustics.sound_file import SoundFile

# Of decoded integers in the upper bits of 32, the kind of WAV that keeps them all.
OF_INTEGERS = {
    "PCM_S8": "PCM_U8", "PCM_U8": "PCM_U8", "PCM_16": "PCM_16", "PCM_24": "PCM_24",
    "PCM_32": "PCM_32", "ULAW": "PCM_16", "ALAW": "PCM_16", "ALAC_16": "PCM_16",
    "ALAC_24": "PCM_24", "DPCM_8": "PCM_U8", "DPCM_16": "PCM_16",
}  # fmt: skip


@dataclass(frozen=True)
class SourcePiece:
    """Sample points [N, channels] from `start_s` on, and the kind of WAV that holds them."""

    points: Shaped[np.ndarray, "N C"]
    rate_hz: int
    subtype: str
    start_s: float

    @property
    def about_bytes(self) -> int:
        return 1024 + self.points.nbytes

    def write(self, out: Path) -> None:
        """Write a WAV file."""
        soundfile.write(out, self.points, self.rate_hz, self.subtype, format="WAV")


def read_piece(
    source: Path | RemoteFile, start_s: float, stop_s: float, channel: int = 0
) -> SourcePiece:
    """The sample points of a file between two times, of all channels or of one, counted from 1.

    What is lossy is decoded to floats. Everything before the piece is decoded too, since many kinds
    of files cannot be entered exactly.

    Raises:
        InputError: it cannot be read.
    """
    with SoundFile(source) as file:
        whole = file.subtype in OF_INTEGERS
        subtype = OF_INTEGERS.get(file.subtype) or ("DOUBLE", "FLOAT")[file.subtype != "DOUBLE"]
        dtype = "int32" if whole else {"DOUBLE": "float64", "FLOAT": "float32"}[subtype]
        start, stop = round(start_s * file.samplerate), round(stop_s * file.samplerate)
        position, pieces = 0, [np.empty((0, file.channels), dtype)]
        while position < stop:
            block = file.read(stop - position, dtype)
            if not len(block):
                break
            pieces.append(block[max(0, start - position) :])
            position += len(block)
        points = np.concatenate(pieces)
        if channel:
            points = points[:, channel - 1 : channel]
        return SourcePiece(points, int(file.samplerate), subtype, start / file.samplerate)
