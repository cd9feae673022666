"""One score of a site and night from those of its recordings."""

import numpy as np
from jaxtyping import Float, Int


def pooled(
    scores: Float[np.ndarray, " K"], cell: Int[np.ndarray, " K"], shape: tuple[int, int]
) -> Float[np.ndarray, "S N"]:
    """The median of the scores of each cell, the upper one of two; NaN where a cell has none.

    It reaches a threshold exactly where at least half of the recordings do, as the vote of
    windows does. `cell` is site · nights + night.
    """
    grid = np.full(shape[0] * shape[1], np.nan)
    order = np.lexsort((scores, cell))
    found, begin, count = np.unique(cell[order], return_index=True, return_counts=True)
    grid[found] = scores[order][begin + count // 2]
    return grid.reshape(shape)
