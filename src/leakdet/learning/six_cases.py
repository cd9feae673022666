"""The rule of Ma et al. (2025): what of a new recording trains, verified or not, and as what."""

import math

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

CASES = (
    "verified leak, found",
    "verified leak, missed",
    "verified normal, false alarm",
    "verified normal",
    "unverified, predicted leak",
    "unverified, predicted normal",
)


def case_of(verified: bool | None, predicted: bool) -> str:
    """The case of a recording: verified leak or not (None: unverified), and the prediction.

    >>> case_of(False, True)
    'verified normal, false alarm'
    """
    if verified is None:
        return CASES[4] if predicted else CASES[5]
    if verified:
        return CASES[0] if predicted else CASES[1]
    return CASES[2] if predicted else CASES[3]


def trains_as_leak(verified: bool | None, predicted: bool) -> bool:
    """True if a recording of that case trains as a leak: a verification outranks a prediction."""
    return predicted if verified is None else verified


def kept_windows(
    window_prob: Float[np.ndarray, " W"],
    recording_offsets: Int[np.ndarray, " offsets"],
    as_leak: Bool[np.ndarray, " R"],
    keep: float,
) -> Bool[np.ndarray, " W"]:
    """Mask of the share `keep` of each recording's windows, rounded up, at least one.

    Of a leak those of the highest leak probability, else those of the lowest: by rank alone, with
    no threshold. Of equal ones the earlier.
    """
    kept = np.zeros(len(window_prob), bool)
    for row, leak in enumerate(as_leak.tolist()):
        start, stop = recording_offsets[row : row + 2].tolist()
        count = max(1, math.ceil(keep * (stop - start) - 1e-9))
        prob = window_prob[start:stop]
        order = np.argsort(-prob if leak else prob, kind="stable")
        kept[start + order[:count]] = True
    return kept


def rounds_of(times: Shaped[np.ndarray, " R"], rounds: int) -> Int[np.ndarray, " R"]:
    """The round of each recording, from 0: parts of about equal size in the order of `times`.

    Recordings of one time are in one round. Empty rounds are left out.
    """
    _, rank, counts = np.unique(times, return_inverse=True, return_counts=True)
    before = np.cumsum(counts) - counts
    number = before * rounds // max(1, len(times))
    return np.asarray(np.unique(number[rank], return_inverse=True)[1])
