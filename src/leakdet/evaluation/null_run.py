"""The null run: labels are permuted, so that a score above chance means that held-out labels leak.

One permutation proves little: a direction in which recordings differ anyway agrees with the true
labels or opposes them, by luck. A closed-form baseline is fitted to many permutations and gives the
spread of that luck, the network is trained on few.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import rankdata

Rows = tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]  # to fit on, and to score

PERMUTATIONS = 1000  # of the closed-form baseline, fewer where recordings are many
MAX_LABELS = 50_000_000  # permuted in all
DRAWS = 20_000  # of means of a few permutations
# More than the 95 % promised: the network's luck may spread wider than the baseline's.
LEVEL = 0.98


def permuted_labels(
    is_leak: Bool[np.ndarray, " R"], parts: Sequence[Int[np.ndarray, " _"]], seed: int = 0
) -> Bool[np.ndarray, "P R"]:
    """Many permutations of the labels, each within the rows of every part; others keep theirs."""
    rng = np.random.default_rng(seed)
    count = min(PERMUTATIONS, max(100, MAX_LABELS // len(is_leak)))
    labels = np.tile(is_leak, (count, 1))
    for rows in parts:
        labels[:, rows] = rng.permuted(labels[:, rows], axis=1)
    return labels


def baseline_aurocs(
    features: Float[np.ndarray, "R M"], labels: Bool[np.ndarray, "P R"], folds: Sequence[Rows]
) -> Float[np.ndarray, " P"]:
    """AUROC under each permutation of labels, over the scored rows of all folds together.

    The baseline scores by the difference of the class means of standardised features, which needs
    no training. 0.5 where a permutation leaves a class without a scored recording.
    """
    scored = np.concatenate([test for _, test in folds])
    standardised = [_standardised(features, *rows) for rows in folds]
    aurocs = []
    for is_leak in labels:
        scores = [
            test @ _direction(train, is_leak[rows[0]])
            for (train, test), rows in zip(standardised, folds, strict=True)
        ]
        aurocs.append(_auroc(np.concatenate(scores), is_leak[scored]))
    return np.array(aurocs)


def _auroc(scores: Float[np.ndarray, " N"], is_leak: Bool[np.ndarray, " N"]) -> float:
    """The rank-sum form: many times faster than a whole ROC curve, for a thousand permutations."""
    leaks = int(is_leak.sum())
    pairs = leaks * (len(is_leak) - leaks)
    if not pairs:
        return 0.5
    return float(rankdata(scores)[is_leak].sum() - leaks * (leaks + 1) / 2) / pairs


def _standardised(
    features: np.ndarray, train: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    fitted = features[train].astype(np.float64)
    deviation = fitted.std(0)
    deviation[deviation < 1e-9] = 1.0
    return fitted / deviation, (features[test] - fitted.mean(0)) / deviation


def _direction(train: Float[np.ndarray, "A M"], is_leak: Bool[np.ndarray, " A"]) -> np.ndarray:
    if is_leak.all() or not is_leak.any():
        return np.zeros(train.shape[1])
    return np.asarray(train[is_leak].mean(0) - train[~is_leak].mean(0))


def null_result(
    aurocs: Sequence[float],
    baseline: Float[np.ndarray, " P"],
    *,
    chosen_on: bool = False,
    seed: int = 0,
) -> dict[str, Any]:
    """Mean AUROC of the network's permutations, and the interval in which luck may put it.

    `aurocs` are those of the network, one a permutation. The interval reaches as far as the mean of
    so many permutations of the baseline strays from 0.5, and holds every one of `aurocs`.
    `chosen_on`: the recordings that are judged chose the checkpoint too.

    Returns `{"auroc", "interval", "permutations": aurocs, "baseline": [low, high] of 95 % of single
    permutations, "chosen_on"}`.
    """
    rng = np.random.default_rng(seed)
    strays = rng.choice(baseline - 0.5, (DRAWS, len(aurocs))).mean(1)
    reach, mean = float(np.quantile(np.abs(strays), LEVEL)), float(np.mean(aurocs))
    low, high = min(mean - reach, *aurocs), max(mean + reach, *aurocs)
    return {
        "auroc": mean,
        "interval": [max(0.0, low), min(1.0, high)],
        "permutations": [float(area) for area in aurocs],
        "baseline": np.quantile(baseline, (0.025, 0.975)).tolist(),
        "chosen_on": chosen_on,
    }


def null_run_findings(null: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Alarms and remarks of a null run, from what `null_result` returns."""
    low, high = null["interval"]
    count = len(null["permutations"])
    runs = "under one permutation" if count == 1 else f"on average over {count} permutations"
    reached = (
        f"Null run: {runs} of the labels the network reaches AUROC {null['auroc']:.2f} "
        f"(95 % interval {low:.2f} to {high:.2f}): "
    )
    if low > 0.5 and not null["chosen_on"]:
        return [f"{reached}held-out labels leak into the training."], []
    if low > 0.5:
        conclusion = (
            "above guessing, but these recordings chose the checkpoint too, which alone does that. "
            "Only a test split can show whether labels leak."
        )
    elif high < 0.5:
        conclusion = (
            "below guessing, as happens with few recordings: the class that training has more of, "
            "the held-out part has less of."
        )
    else:
        conclusion = "no better than guessing, as expected."
    low, high = null["baseline"]
    scale = f"By luck, a single permutation of a linear model reaches {low:.2f} to {high:.2f}."
    return [], [f"{reached}{conclusion} {scale}"]
