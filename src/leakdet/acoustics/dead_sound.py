"""Dead sound: digital silence, dropouts and stuck values, of each window and of a recording."""

from collections.abc import Collection, Iterator
from enum import IntEnum

import numpy as np
from jaxtyping import Float32

from leakdet.acoustics.flags import Flag

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
