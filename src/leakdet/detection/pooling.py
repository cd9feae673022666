"""From window probabilities to one score per recording."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int

from leakdet.detection.logistic import logit, sigmoid
from leakdet.detection.ranking import checked_scores
from leakdet.errors import InputError, SettingsError

POOLINGS = ("mean", "vote", "logit_mean")
_BLOCK_WINDOWS = 1 << 20


def votes_needed(windows: Int[np.ndarray, " R"], vote_fraction: float) -> Int[np.ndarray, " R"]:
    """`k = ceil(vote_fraction * n)` for recordings of n windows, at least 1.

    The fraction is taken as the nearest one with a denominator of at most 10^6: in floating point
    ceil(0.1 * 30) is 4.

    >>> votes_needed(np.array([1, 3, 30]), 0.1)
    array([1, 1, 3])
    """
    share = Fraction(vote_fraction).limit_denominator(1_000_000)
    return np.asarray(
        np.maximum(1, -(-share.numerator * windows.astype(np.int64) // share.denominator))
    )


def pool(
    window_prob: Float[np.ndarray, " W"],
    recording_offsets: Int[np.ndarray, " offsets"],
    pooling: str,
    vote_fraction: float = 0.5,
) -> Float[np.ndarray, " R"]:
    """Recording scores in 0..1, float64, from the leak probabilities of their windows.

    Windows of recording r are `recording_offsets[r]:recording_offsets[r + 1]`. Poolings:

    - `vote`: the k-th largest window probability, k = ceil(vote_fraction * n). `score >= t` exactly
      where at least `vote_fraction` of the windows have a probability >= t;
    - `mean`: the mean probability; ranks as well as the vote and has no ties;
    - `logit_mean`: the sigmoid of the mean log-odds; confident windows count for more.

    A recording's score does not depend on its neighbours.

    Raises:
        SettingsError: an unknown pooling, or a fraction outside (0, 1].
        InputError: a probability is NaN or outside [0, 1], or a recording has no windows.
        ValueError: the offsets do not fit the windows.
    """
    check_pooling(pooling, vote_fraction)
    prob = checked_scores(window_prob)
    windows = _window_counts(recording_offsets, len(prob))
    starts = recording_offsets[:-1].astype(np.int64)
    match pooling:
        case _ if len(starts) == 0:
            return np.zeros(0)
        case "mean":
            return np.asarray(np.add.reduceat(prob, starts) / windows)
        case "logit_mean":
            return sigmoid(np.add.reduceat(logit(prob), starts) / windows)
        case _:
            return _kth_largest(prob, starts, windows, votes_needed(windows, vote_fraction))


def pool_classes(
    class_prob: Float[np.ndarray, "W C"],
    recording_offsets: Int[np.ndarray, " offsets"],
    leaks: Sequence[int],
    score: Float[np.ndarray, " R"],
) -> Float[np.ndarray, "R C"]:
    """Probability of each class for recordings of these scores, float64; they add up to 1.

    It is the mean over the windows, scaled so that the classes `leaks` add up to the score: what
    is told of the classes never contradicts the leak probability.
    """
    starts = recording_offsets[:-1].astype(np.int64)
    if not len(starts) or not class_prob.shape[1]:
        return np.zeros((len(starts), class_prob.shape[1]))
    mean = np.add.reduceat(class_prob.astype(np.float64), starts, axis=0)
    is_leak = np.isin(np.arange(class_prob.shape[1]), leaks)
    for side, wanted in ((is_leak, score), (~is_leak, 1.0 - score)):
        total = mean[:, side].sum(axis=1, keepdims=True)
        even = np.full((1, side.sum()), 1.0 / side.sum())
        share = np.divide(mean[:, side], total, out=np.repeat(even, len(mean), 0), where=total > 0)
        mean[:, side] = wanted[:, None] * share
    return np.asarray(mean)


def check_pooling(pooling: str, vote_fraction: float) -> None:
    """Raise `SettingsError` on an unknown pooling or a fraction outside (0, 1]."""
    if pooling not in POOLINGS:
        raise SettingsError(f"The pooling is {pooling!r}; allowed are {', '.join(POOLINGS)}.")
    if not 0.0 < vote_fraction <= 1.0:
        raise SettingsError(f"vote_fraction is {vote_fraction}; it must lie in (0, 1].")


def _window_counts(offsets: np.ndarray, total: int) -> np.ndarray:
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != total:
        ends = f"{offsets[0]} to {offsets[-1]}" if len(offsets) else "nothing"
        raise ValueError(
            f"recording_offsets must run from 0 to {total}, the number of windows; found {ends}"
        )
    windows = np.diff(offsets.astype(np.int64))
    if (windows < 0).any():
        raise ValueError(
            "recording_offsets must not fall; they do after recording "
            f"{int(np.argmax(windows < 0))}"
        )
    if (windows == 0).any():
        raise InputError(
            f"Recording {int(np.argmax(windows == 0))} (counted from 0) has no windows, so it has "
            "no score."
        )
    return windows


def _kth_largest(
    prob: np.ndarray, starts: np.ndarray, windows: np.ndarray, k: np.ndarray
) -> np.ndarray:
    """The k-th largest window of each recording [R], recordings of one length at a time."""
    scores = np.empty(len(starts))
    for rows in _equal_length_blocks(windows):
        n = int(windows[rows[0]])
        place = n - int(k[rows[0]])
        block = prob[starts[rows][:, None] + np.arange(n)]
        block.partition(place, axis=1)
        scores[rows] = block[:, place]
    return scores


def _equal_length_blocks(windows: np.ndarray) -> Iterator[np.ndarray]:
    """Rows of recordings with the same number of windows, in blocks of bounded memory."""
    by_length = np.argsort(windows, kind="stable")
    for rows in np.split(by_length, np.flatnonzero(np.diff(windows[by_length])) + 1):
        size = max(1, _BLOCK_WINDOWS // int(windows[rows[0]]))
        for start in range(0, len(rows), size):
            yield rows[start : start + size]
