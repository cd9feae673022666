"""What is measured of a recording beside its log-mel: flags, quiet level, hum, dead sound.

docs/files.md says what each of them means.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Float, Float32

Flag = Literal[
    "short",
    "silent",
    "stuck",
    "dropouts",
    "truncated",
    "damaged",
    "header_mended",
    "several_streams",
    "unchecked",
    "channels_cancel",
    "clipped",
    "over_full_scale",
    "narrow_band",
    "converted",
    "met_in_training",
]


MAINS_HZ = (50.0, 60.0)
HARMONICS = 4
FEWEST_S = 1.0  # of sound; of less, hum is as wide as what it is compared with
PIECE_S = 4.0  # of sound per spectrum, which resolves a quarter of a hertz
ON_HZ, BESIDE_HZ = 1.0, (3.0, 8.0)  # distances from a harmonic: of hum, and of its reference
# block averages down to this rate attenuate what aliases onto a harmonic by 24 dB
MEAN_RATE_HZ = 4000
BINOMIAL = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16.0
COARSE_RATE_HZ = 1000  # binomial filters of five taps, decimating by two, down to here: 33 dB


class MainsHum:
    """Accumulates the power spectrum of a recording up to the last harmonic, in bounded memory."""

    def __init__(self, rate_hz: int) -> None:
        self._plan = _plan(rate_hz)
        self._power = np.zeros(self._plan.bins)
        self._samples, self._fewest = 0, FEWEST_S * rate_hz

    def add(self, sound: Float[np.ndarray, " N"]) -> None:
        """Add the next sample points, at most `PIECE_S` of them; a shorter piece weighs less."""
        plan = self._plan
        self._samples += len(sound)
        coarse = plan.decimate(sound)[: plan.size]
        spectrum = np.fft.rfft(coarse * _hann(len(coarse)), n=plan.size)[: plan.bins]
        self._power += spectrum.real**2
        self._power += spectrum.imag**2

    def prominences_db(self) -> tuple[float, ...]:
        """Of each of `MAINS_HZ`: mean power within 1 Hz of its harmonics over that 3 to 8 Hz away.

        In dB; 0 dB where the recording's rate is too low for any harmonic.
        """
        on, beside = (self._plan.weights @ self._power).reshape(-1, 2).T
        return tuple((10.0 * np.log10((on + 1e-20) / (beside + 1e-20))).tolist())

    @property
    def is_told(self) -> bool:
        """False of less than a second, of silence, and at too low a rate."""
        return self._samples >= self._fewest and self._plan.holds_all and bool(self._power.any())


@dataclass(frozen=True)
class _Plan:
    """The parts that depend on the rate alone: decimation, and the bins to compare."""

    kernel: Float32[np.ndarray, "D C"]  # filter of the decimation by D, column after column
    size: int  # of the FFT, in decimated sample points
    bins: int  # kept: up to the last harmonic and its reference
    weights: Float[np.ndarray, "F bins"]  # of mean power: for each mains on it, and beside it
    holds_all: bool  # the rate is high enough for both

    def decimate(self, sound: Float[np.ndarray, " N"]) -> Float[np.ndarray, " M"]:
        step, columns = self.kernel.shape
        count = len(sound) // step
        blocks = sound[: count * step].astype(np.float32, copy=False).reshape(count, step)
        parts = blocks @ self.kernel  # one product is faster than filters one after the other
        most = max(0, count - columns + 1)
        thin: np.ndarray = parts[:most, 0].copy()
        for column in range(1, columns):
            thin += parts[column : column + most, column]
        return thin


@lru_cache(maxsize=16)
def _plan(rate_hz: int) -> _Plan:
    step = max(1, int(rate_hz // MEAN_RATE_HZ))
    halvings = max(0, int(np.log2(rate_hz / step / COARSE_RATE_HZ)))
    coarse_hz = rate_hz / step / 2**halvings
    size = max(2, int(PIECE_S * coarse_hz))
    hz = np.fft.rfftfreq(size, 1.0 / coarse_hz)
    hz = hz[hz <= MAINS_HZ[-1] * HARMONICS + BESIDE_HZ[1]]
    gain = np.ones(len(hz))
    for halving in range(halvings):
        gain *= np.cos(np.pi * hz * step * 2**halving / rate_hz) ** 4
    weights, slack = [], 0.4 / PIECE_S  # of a bin: at odd rates bins miss whole hertz by a little
    for mains_hz in MAINS_HZ:
        distance = np.abs(hz[:, None] - mains_hz * np.arange(1, HARMONICS + 1)).min(axis=1)
        beside = (distance >= BESIDE_HZ[0] - slack) & (distance <= BESIDE_HZ[1] + slack)
        both = (distance <= ON_HZ + slack, beside)
        weights += [chosen / gain**2 / max(1, chosen.sum()) for chosen in both]
    holds_all = all(each.any() for each in weights)
    return _Plan(_decimation(step, halvings), size, len(hz), np.stack(weights), holds_all)


def _decimation(step: int, halvings: int) -> Float32[np.ndarray, "D C"]:
    """Means of `step` points, then binomial filters of five taps that decimate by two."""
    kernel = np.ones(1)
    for halving in reversed(range(halvings)):
        spread = np.zeros(4 * 2**halving + 1)
        spread[:: 2**halving] = BINOMIAL
        kernel = np.convolve(kernel, spread)
    kernel = np.repeat(kernel, step) / step
    columns = -(-len(kernel) // (step * 2**halvings))
    padded = np.zeros(columns * step * 2**halvings, np.float32)
    padded[: len(kernel)] = kernel
    return padded.reshape(columns, -1).T.copy()


# cached because making a window takes longer than the FFT, and a data set has few lengths
@lru_cache(maxsize=16)
def _hann(size: int) -> Float[np.ndarray, " size"]:
    return np.hanning(size).astype(np.float32)


RUN_S = 0.01  # one value for at least this long is a dead run; sound does not stand still
STEP = 2.0**-17  # neighbours closer than this are one value: a quarter of a 16-bit step
DEAD_SHARE = 0.1  # a window with a greater share of it in dead runs is dead
SILENCE_DBFS = -90.0  # below the least significant bit of 16-bit audio
SILENCE = 10.0 ** (SILENCE_DBFS / 20)


class WindowState(IntEnum):
    """Content of a window; all but LIVE are dead: they say nothing about the pipe."""

    LIVE = 0
    SILENT = 1  # its level, leaving out its mean, is below SILENCE_DBFS, and its mean is zero
    DROPOUT = 2  # dead runs take more than DEAD_SHARE of it, most of them of zeros
    STUCK = 3  # as SILENT or DROPOUT, of another value than zero


def shortest_run(rate_hz: int) -> int:
    """Sample points of the shortest dead run."""
    return max(16, int(RUN_S * rate_hz))


class DeadRuns:
    """Runs of one value, at least `RUN_S` long, in a stream of sound that comes in blocks."""

    def __init__(self, rate_hz: int) -> None:
        self._shortest = shortest_run(rate_hz)
        self._runs: list[tuple[int, int, bool]] = []  # start, stop, whether the value is zero
        self._open: tuple[int, int, bool] | None = None  # of any length; may go on
        self._position = 0
        self._last = np.empty(0, np.float32)

    def add(self, sound: Float32[np.ndarray, " N"]) -> None:
        """Take the next sample points."""
        if not len(sound):
            return
        origin, held = self._position - len(self._last), len(self._last) + len(sound)
        self._position += len(sound)
        for offset, piece in self._pieces(sound):
            for start, stop in _runs(piece):
                begin, end = origin + offset + start, origin + offset + stop
                is_whole = offset + start > 0 and offset + stop < held
                if stop - start < self._shortest and is_whole:
                    continue
                if self._open and self._open[1] == begin + 1:
                    begin = self._open[0]
                else:
                    self._close()
                self._open = (begin, end, bool(abs(piece[stop - 1]) < SILENCE))
        if self._open and self._open[1] < self._position:
            self._close()
        self._last = sound[-1:].copy()

    def _pieces(self, sound: Float32[np.ndarray, " N"]) -> Iterator[tuple[int, np.ndarray]]:
        """Where runs are looked for, with their offset: the ends alone, where no run is long."""
        if len(sound) < 4 * self._shortest or _may_hold_run(sound, self._shortest):
            yield 0, np.concatenate([self._last, sound])
            return
        head = np.concatenate([self._last, sound[: self._shortest]])
        if abs(head[1] - head[0]) < STEP:
            yield 0, head
        if abs(sound[-1] - sound[-2]) < STEP:
            skipped = len(sound) - self._shortest
            yield skipped + len(self._last), sound[skipped:]

    def _close(self) -> None:
        if self._open and self._open[1] - self._open[0] >= self._shortest:
            self._runs.append(self._open)
        self._open = None

    @property
    def any(self) -> bool:
        """True if there may be one that is not forgotten."""
        return bool(self._runs) or self._open is not None

    def within(self, start: int, stop: int) -> tuple[int, int]:
        """Sample points of `start` to `stop` in dead runs of zeros, and of other values.

        Runs that end before `start` are forgotten: ask in the order of time.
        """
        self._runs = [run for run in self._runs if run[1] > start]
        count = [0, 0]
        for run_start, run_stop, is_zero in (*self._runs, self._open or (0, 0, True)):
            if run_stop - run_start >= self._shortest:
                overlap = min(stop, run_stop) - max(start, run_start)
                count[0 if is_zero else 1] += max(0, overlap)
        return count[0], count[1]


def _may_hold_run(sound: Float32[np.ndarray, " N"], shortest: int) -> bool:
    """False if points an eighth of a run apart show that there is none, as in nearly all sound."""
    apart = (shortest - 1) // 8
    near = np.abs(np.diff(sound[::apart])) < apart * STEP
    # a run holds eight such points, and so seven in a row that are near the next
    two = near[1:] & near[:-1]
    four = two[2:] & two[:-2]
    return bool((four[3:] & four[:-3]).any())


def _runs(sound: Float32[np.ndarray, " N"]) -> Iterator[tuple[int, int]]:
    repeats = np.flatnonzero(np.abs(np.diff(sound)) < STEP) + 1
    if repeats.size:
        breaks = np.flatnonzero(np.diff(repeats) > 1)
        starts = repeats[np.append(0, breaks + 1)] - 1
        stops = repeats[np.append(breaks, -1)] + 1
        yield from zip(starts.tolist(), stops.tolist(), strict=True)


def are_loud(pieces: Float32[np.ndarray, "W N"], window_samples: int) -> bool:
    """True if a few points of each piece show that its window is not silent: nearly always."""
    few = pieces[:, :: max(1, pieces.shape[1] // 64)]
    # a difference like this has the power of silence in the whole window
    enough = SILENCE * (2 * window_samples) ** 0.5
    return bool(((few.max(axis=1) - few.min(axis=1)) > enough).all())


def window_state(
    window: Float32[np.ndarray, " N"], zero_samples: int = 0, stuck_samples: int = 0
) -> WindowState:
    """State of a window of which so many sample points lie in dead runs."""
    if window.std() < SILENCE:
        is_zero = abs(float(window.mean())) < SILENCE and stuck_samples <= zero_samples
        return WindowState.SILENT if is_zero else WindowState.STUCK
    if zero_samples + stuck_samples <= DEAD_SHARE * len(window):
        return WindowState.LIVE
    return WindowState.STUCK if stuck_samples > zero_samples else WindowState.DROPOUT


def dead_flags(states: Collection[WindowState]) -> list[Flag]:
    """Flags of a recording that has windows of these states; none if all are live.

    `silent`: every window is silent. `stuck`: a window holds a stuck value. `dropouts`: a window
    holds a dropout, or is silent while others are not.
    """
    if set(states) == {WindowState.SILENT}:
        return ["silent"]
    conditions: dict[Flag, bool] = {
        "stuck": WindowState.STUCK in states,
        "dropouts": WindowState.DROPOUT in states or WindowState.SILENT in states,
    }
    return [name for name, is_met in conditions.items() if is_met]


FRAME_S = 0.1
MOST = 4096  # frames that are kept
SHARE = 0.1  # of the frames are quieter


class QuietLevel:
    """The 10th percentile of the levels of frames of 0.1 s, of sound that comes in blocks.

    A frame's level is its RMS about its own mean, so that an offset does not count. Frames below
    -90 dBFS hold no sound and are left out, and so is what is left over at the end. Of more
    than 4,096 frames every second one counts, of more than 8,192 every fourth, and so on.
    """

    def __init__(self, rate_hz: int) -> None:
        self._size = max(2, round(FRAME_S * rate_hz))
        self._ones = _ones(self._size)
        self._rest = np.empty(0, np.float32)
        self._power = np.empty(0)  # of every so many frames
        self._every, self._frames = 1, 0

    def add(self, sound: Float32[np.ndarray, " N"]) -> None:
        """Take the next sample points."""
        held = np.concatenate([self._rest, sound]) if len(self._rest) else sound
        count = len(held) // self._size
        self._rest = held[count * self._size :].copy()
        frames = held[: count * self._size].reshape(count, self._size)
        mean = (frames @ self._ones).astype(np.float64) / self._size
        # a product of matrices for each frame is several times as fast as a sum of squares
        squares = np.matmul(frames[:, None, :], frames[:, :, None])[:, 0, 0]
        power = squares / self._size - mean**2
        self._keep(power)
        self._frames += count

    def _keep(self, power: Float[np.ndarray, " F"]) -> None:
        """Keep the power of frames whose number is a multiple of `_every`, `MOST` at most."""
        new = power[-self._frames % self._every :: self._every]
        while len(self._power) + len(new) > MOST:
            self._every *= 2
            self._power = self._power[::2]
            new = power[-self._frames % self._every :: self._every]
        self._power = np.concatenate([self._power, new])

    def dbfs(self) -> float | None:
        """The level over a square wave of full scale; None where no frame holds sound."""
        power = self._power[self._power >= SILENCE**2]
        return low_share(10.0 * np.log10(power)) if power.size else None


@lru_cache(maxsize=16)
def _ones(size: int) -> Float32[np.ndarray, " size"]:
    return np.ones(size, np.float32)


def low_share(values: Float[np.ndarray, " N"]) -> float:
    """The 10th percentile, between two values linearly, as `np.percentile` but in no time."""
    ordered, place = np.sort(values), SHARE * (len(values) - 1)
    below = int(place)
    low, high = ordered[below], ordered[min(below + 1, len(values) - 1)]
    return float(low + (high - low) * (place - below))
