"""How much a detector that may leave recordings undecided decides, and how much of it wrongly.

In selective classification the share decided is the coverage, the error of the decided the risk.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from leakdet.detection.calibration import logit
from leakdet.evaluation.intervals import share_intervals

REASONS = {
    "other_source": "of another logger",
    "unfamiliar": "unfamiliar",
    "doubt": "too close to call",
}
SHARES = ("share_decided", "wrong_of_decided", "wrong_of_all")
UNDEFINED = {
    "share_decided": "there is nothing to score",
    "wrong_of_decided": "nothing is decided",
    "wrong_of_all": "there is nothing to score",
    "recall": "no leak is decided",
    "fpr": "no recording without a leak is decided",
}


def coverage_table(
    is_leak: Bool[np.ndarray, " R"],
    decision: Bool[np.ndarray, " R"],
    reason: Shaped[np.ndarray, " R"] | None,
    units: Shaped[np.ndarray, " R"] | None,
    replicates: int,
    recording: Int[np.ndarray, " R"] | None = None,
) -> dict[str, Any]:
    """The entry `coverage` of a split in metrics.json: what predict decides, and how.

    `decision` is by the side of the threshold, `reason` says why predict does not decide (None: it
    decides all). Gives counts of all recordings and of the decided ones, `undecided` by reason, and
    shares with intervals that draw whole `units`. Recall and FPR are of the decided recordings.
    `recording` numbers the recording of each row where several rows are of one.
    """
    reasons = np.full(len(is_leak), "") if reason is None else reason
    decided, every = reasons == "", np.ones(len(is_leak), bool)
    leak, other = decided & is_leak, decided & ~is_leak
    wrong = decided & (decision != is_leak)
    parts = {
        "share_decided": (decided, every),
        "wrong_of_decided": (wrong, decided),
        "wrong_of_all": (wrong, every),
        "recall": (leak & decision, leak),
        "fpr": (other & decision, other),
    }
    return {
        "n": len(is_leak),
        "positives": int(is_leak.sum()),
        "negatives": int((~is_leak).sum()),
        "decided": int(decided.sum()),
        "undecided": _by_reason(reasons),
        "undecided_leaks": _by_reason(reasons[is_leak]),
        "tp": int((leak & decision).sum()),
        "fp": int((other & decision).sum()),
        "fn": int((leak & ~decision).sum()),
        "tn": int((other & ~decision).sum()),
        **{
            key: float(hits.sum() / of.sum()) if of.any() else None
            for key, (hits, of) in parts.items()
        },
        "undefined": {key: UNDEFINED[key] for key, (_, of) in parts.items() if not of.any()},
        "intervals": share_intervals(parts, units, replicates, recording),
    }


def risk_coverage(
    scores: Float[np.ndarray, " R"],
    threshold: Float[np.ndarray, " R"],
    is_leak: Bool[np.ndarray, " R"],
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]] | None:
    """Share decided, and error of what is decided, if the recordings nearest the threshold are not.

    Near is by odds, as `decision.doubt` is. None where a threshold has no odds, or without rows.
    """
    if not len(scores) or (threshold <= 0.0).any() or (threshold >= 1.0).any():
        return None
    distance = np.abs(logit(scores) - logit(threshold)).round(9)  # equal on both sides
    order = np.argsort(-distance, kind="stable")
    wrong = ((scores >= threshold) != is_leak)[order]
    last = np.flatnonzero(np.append(np.diff(distance[order]) != 0.0, True))
    decided = last + 1
    return decided / len(scores), np.cumsum(wrong)[last] / decided


def undecided_words(undecided: Mapping[str, int]) -> list[str]:
    """How many recordings are undecided for each reason, in words.

    >>> undecided_words({"unfamiliar": 1, "doubt": 5})
    ['1 unfamiliar', '5 too close to call']
    """
    return [f"{count} {REASONS[reason]}" for reason, count in undecided.items()]


def _by_reason(reason: Shaped[np.ndarray, " N"]) -> dict[str, int]:
    """How many are undecided for each reason, in the order in which reasons are looked for."""
    return {name: count for name in REASONS if (count := int((reason == name).sum()))}
