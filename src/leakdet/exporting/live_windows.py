"""Which windows hold sound: `acoustics/dead_sound.py` as operations on a whole recording."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from leakdet.acoustics.dead_sound import DEAD_SHARE, SILENCE, STEP, shortest_run


def live_windows(
    windows: Float[Tensor, "W N"],
    sound: Float[Tensor, " L"],
    starts: Int[Tensor, " W"],
    rate_hz: int,
) -> Bool[Tensor, " W"]:
    """True for windows that are neither silent nor, for a tenth or more, in dead runs.

    `windows` are high-passed if the settings ask for it; dead runs are those of the `sound` before.
    """
    length = windows.shape[-1]
    deviation = (windows - windows.mean(-1, keepdim=True)).square().mean(-1)
    before = functional.pad(in_dead_runs(sound, rate_hz).cumsum(0), (1, 0))
    dead = before[starts + length] - before[starts]
    live: Tensor = (deviation >= SILENCE**2) & (dead <= DEAD_SHARE * length)
    return live


def in_dead_runs(sound: Float[Tensor, " L"], rate_hz: int) -> Float[Tensor, " L"]:
    """1 for each sample point in a run of one value of at least 10 ms, else 0."""
    repeats = shortest_run(rate_hz) - 1
    same = ((sound[1:] - sound[:-1]).abs() < STEP).to(sound.dtype)
    whole_runs = 1.0 - _running_max(1.0 - same, repeats)
    return _running_max(functional.pad(whole_runs, (repeats, repeats)), repeats + 1)


def _running_max(values: Float[Tensor, " L"], width: int) -> Float[Tensor, " K"]:
    """Largest of each `width` neighbours [L - width + 1], by doubling."""
    span = 1
    while 2 * span <= width:
        values = torch.maximum(values[:-span], values[span:])
        span *= 2
    rest = width - span
    return torch.maximum(values[:-rest], values[rest:]) if rest else values
