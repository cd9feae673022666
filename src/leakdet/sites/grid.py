"""Arithmetic on grids of sites and nights in which values lack."""

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped


def last_of(mask: Bool[np.ndarray, "S N"]) -> Int[np.ndarray, " S"]:
    """Index of the last True of each row; -1 where there is none."""
    last = mask.shape[1] - 1 - np.argmax(mask[:, ::-1], axis=1)
    return np.where(mask.any(axis=1), last, -1)


def at(
    grid: Shaped[np.ndarray, "S N"], place: Int[np.ndarray, " S"], none: float | int
) -> np.ndarray:
    """The value of each row at its place; `none` where the place is -1."""
    values = np.take_along_axis(grid, np.maximum(place, 0)[:, None], axis=1)[:, 0]
    return np.where(place >= 0, values, none)


def packed(mask: Bool[np.ndarray, "S N"]) -> tuple[np.ndarray, np.ndarray]:
    """Columns of each row's True values, in order and first; and which of the places they fill."""
    order = np.argsort(~mask, axis=1, kind="stable")
    return order, np.arange(mask.shape[1]) < mask.sum(axis=1)[:, None]


def last_few(mask: Bool[np.ndarray, "S N"], few: int) -> Bool[np.ndarray, "S N"]:
    """The last few True values of each row."""
    from_the_end = np.cumsum(mask[:, ::-1], axis=1)[:, ::-1]
    return mask & (from_the_end <= few)


def sum_of_last(values: Bool[np.ndarray, "S N"], few: int) -> Int[np.ndarray, "S N"]:
    """The sum of each value and those before it, so many in all."""
    total = np.cumsum(values, axis=1)
    total[:, few:] -= total[:, :-few].copy()
    return total


def masked_median(
    values: Float[np.ndarray, "S N"], mask: Bool[np.ndarray, "S N"], fewest: int = 1
) -> Float[np.ndarray, " S"]:
    """The median of the known values of each row; NaN where there are fewer than `fewest`."""
    if not values.shape[1]:
        return np.full(len(values), np.nan)
    known = mask & ~np.isnan(values)
    count = known.sum(axis=1)
    ordered = np.sort(np.where(known, values, np.inf), axis=1)
    lower, upper = at(ordered, (count - 1) // 2, np.nan), at(ordered, count // 2 - (count == 0), 0)
    return np.where(count >= fewest, (lower + upper) / 2.0, np.nan)


def held(
    values: Float[np.ndarray, "S N"], mask: Bool[np.ndarray, "S N"], times: int
) -> Float[np.ndarray, " S"]:
    """The value that each row reaches so many times; its least one where it has fewer."""
    known = mask & ~np.isnan(values)
    count = known.sum(axis=1)
    ordered = -np.sort(np.where(known, -values, np.inf), axis=1)
    return at(ordered, np.minimum(times, count) - 1, np.nan)
