"""A recording that lies in memory as an array, read like a sound file."""

from math import nan
from typing import Any

import numpy as np
from jaxtyping import Float32

from leakdet.acoustics.flags import Flag
from leakdet.acoustics.sound_file import RATES_HZ
from leakdet.errors import InputError

# integer PCM: the value of silence and that of full scale, as in libsndfile
PCM = {"uint8": (128.0, 2.0**7), "int16": (0.0, 2.0**15), "int32": (0.0, 2.0**31)}
FLOATS = ("float16", "float32", "float64")


class ArrayRecording:
    """Sound [samples] or [samples, channels]: floats in [-1, 1], or PCM of 8, 16 or 32 bits.

    It is read like a `SoundFile`, and gives the same numbers as a WAV file of these samples.

    Raises:
        InputError: another type or shape, no samples, or a rate that is not one of `RATES_HZ`.
    """

    subtype = "FLOAT"

    def __init__(self, samples: np.ndarray, rate_hz: Any) -> None:
        if samples.dtype.name not in (*PCM, *FLOATS):
            raise InputError(
                f"the array is of {samples.dtype}; allowed are {', '.join((*FLOATS, *PCM))}."
            )
        if samples.ndim not in (1, 2):
            raise InputError(
                f"the array has shape {samples.shape}; "
                "allowed are [samples] and [samples, channels]."
            )
        rate = _number(rate_hz)
        if rate not in RATES_HZ:
            raise InputError(
                f"the rate is {rate_hz} Hz; allowed are whole numbers from {RATES_HZ[0]} to "
                f"{RATES_HZ[-1]}."
            )
        self._samples = samples[:, None] if samples.ndim == 1 else samples
        self.samplerate = int(rate)
        self.frames, self.channels = self._samples.shape
        if not samples.size:
            raise InputError("the array is empty")
        if self.channels > self.frames:
            raise InputError(
                f"the array has shape {samples.shape}, which is {self.channels} channels of "
                f"{self.frames} samples each; transpose it to [samples, channels]."
            )
        self._position = 0

    def rewind(self) -> None:
        """Go back to the start."""
        self._position = 0

    def flags(self) -> list[Flag]:
        """No flags: an array has no file structure that could be damaged."""
        return []

    def read(self, frames: int, **_: Any) -> Float32[np.ndarray, "N C"]:
        """The next samples, at most `frames`."""
        block = self._samples[self._position : self._position + frames]
        self._position += len(block)
        if block.dtype.name not in PCM:
            return np.ascontiguousarray(block, np.float32)
        silence, full_scale = PCM[block.dtype.name]
        return (block.astype(np.float32) - np.float32(silence)) * np.float32(1 / full_scale)


def _number(value: Any) -> float:
    """The value as a float; NaN of what is no number."""
    try:
        return nan if isinstance(value, str | bool) else float(value)
    except TypeError:
        return nan
