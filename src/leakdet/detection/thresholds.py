"""Exact threshold of a policy: the best of all cuts between distinct scores, without a grid.

A *cut* calls the rows of the highest `j` distinct scores leaks: `C` distinct scores allow `C + 1`
cuts, and every threshold makes one of them. Row weights (how often a bootstrap drew a row) change
the counts at the cuts, never the order: one sort serves thousands of replicates.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from leakdet.config.fields import with_point
from leakdet.core.errors import InputError, SettingsError

# tolerance of a rate times a count: 0.29 * 100 is 28.999999999999996 in floating point
COUNT_SLACK = 1e-6


def checked_scores(
    scores: Float[np.ndarray, " N"], *, probabilities: bool = True
) -> Float[np.ndarray, " N"]:
    """Scores in float64. Raises `InputError` on NaN, infinity, and probabilities outside [0, 1]."""
    checked = scores.astype(np.float64, copy=False)
    bad = ~((checked >= 0.0) & (checked <= 1.0)) if probabilities else ~np.isfinite(checked)
    if bad.any():
        row = int(np.argmax(bad))
        allowed = (
            "a probability in [0, 1] (were logits passed?)" if probabilities else "a finite number"
        )
        raise InputError(
            f"The score in row {row} is {checked[row]}, not {allowed}; "
            f"{int(bad.sum())} of {len(checked)} rows are at fault."
        )
    return checked


@dataclass(frozen=True)
class Cuts:
    """Leaks found and false alarms raised at each cut, from none to all, under `B` weightings."""

    tp: Int[np.ndarray, "B cuts"]
    fp: Int[np.ndarray, "B cuts"]

    @property
    def positives(self) -> Int[np.ndarray, " B"]:
        """Leak rows."""
        return self.tp[:, -1]

    @property
    def negatives(self) -> Int[np.ndarray, " B"]:
        """Rows without a leak."""
        return self.fp[:, -1]


@dataclass(frozen=True)
class Ranking:
    """Rows sorted by descending score, and where each distinct score ends.

    `order` indexes the rows as given; `scores` and `is_leak` are sorted; `ends` is one past the
    last row of each distinct score. Among equal scores leaks come first, so that nothing depends on
    the order of the rows.
    """

    order: Int[np.ndarray, " N"]
    scores: Float[np.ndarray, " N"]
    is_leak: Bool[np.ndarray, " N"]
    ends: Int[np.ndarray, " C"]

    @cached_property
    def distinct(self) -> Float[np.ndarray, " C"]:
        """The distinct scores, descending."""
        return np.asarray(self.scores[self.ends - 1])

    @cached_property
    def leak_cuts(self) -> Int[np.ndarray, " L"]:
        """The cuts that add a leak to the one before."""
        leaks = self.cuts().tp[0]
        return np.flatnonzero(leaks[1:] > leaks[:-1]) + 1

    @cached_property
    def error(self) -> Float[np.ndarray, " N"]:
        """Score minus label, 0 or 1, in sorted order."""
        return np.asarray(self.scores - self.is_leak)

    def cut(self, threshold: float) -> int:
        """The cut that `score >= threshold` makes."""
        return len(self.distinct) - int(
            np.searchsorted(self.distinct[::-1], threshold, side="left")
        )

    def cuts(self, weights: Int[np.ndarray, "B N"] | None = None) -> Cuts:
        """Weighted counts at every cut; weights are in sorted order, None means each row once."""
        if weights is None:
            weights = np.ones((1, len(self.scores)), np.int64)
        # Integers: a cumulative sum of floats takes four times as long.
        tp, called = self._cumulative(weights * self.is_leak), self._cumulative(weights)
        called -= tp
        return Cuts(tp, called)

    def _cumulative(self, weights: np.ndarray) -> np.ndarray:
        running = np.empty((len(weights), len(self.scores) + 1), np.int64)
        running[:, 0] = 0
        np.cumsum(weights, axis=1, out=running[:, 1:])
        if len(self.ends) == len(self.scores):
            return running
        return running[:, np.concatenate(([0], self.ends))]


def rank(
    scores: Float[np.ndarray, " N"], is_leak: Bool[np.ndarray, " N"], *, probabilities: bool = True
) -> Ranking:
    """Sort labelled scores. Raises as `checked_scores`, and `ValueError` on unequal lengths."""
    checked = checked_scores(scores, probabilities=probabilities)
    if len(is_leak) != len(checked):
        raise ValueError(f"{len(checked)} scores have {len(is_leak)} labels")
    order = np.lexsort((~is_leak, -checked))
    falling = checked[order]
    last = np.append(falling[1:] != falling[:-1], True) if len(falling) else np.zeros(0, np.bool_)
    return Ranking(order, falling, is_leak[order], np.flatnonzero(last) + 1)


POLICIES = ("max_f1", "max_fpr", "min_tpr", "fixed", "min_cost")
BUDGETS = {"max_fpr": 0.01, "min_tpr": 0.95, "fixed": 0.5}
"""The number that a policy takes, where it takes one, and its default."""

DEFAULT_THRESHOLD = 0.5

NEVER = float(np.nextafter(np.float32(1.0), np.float32(2.0)))
"""The lowest threshold that no float32 probability reaches, 1 + 2**-23; the largest one allowed."""


@dataclass(frozen=True)
class ThresholdFit:
    """A threshold in [0, `NEVER`], and a note on what limits it, if anything does."""

    threshold: float
    note: str | None


def checked_budget(policy: str, budget: float | None) -> float | None:
    """The number of a policy, `budget` or its default. Raises `SettingsError` on a bad one."""
    if policy not in POLICIES:
        raise SettingsError(
            f"The threshold policy is {policy!r}; allowed are {', '.join(POLICIES)}."
        )
    if policy not in BUDGETS:
        if budget is not None:
            raise SettingsError(f"The policy {policy} takes no budget; found {budget}.")
        return None
    value = BUDGETS[policy] if budget is None else float(budget)
    top = NEVER if policy == "fixed" else 1.0
    if not 0.0 <= value <= top:
        raise SettingsError(f"The number of the policy {policy} is {value}; it must lie in [0, 1].")
    return value


def checked_policy(threshold: float | None, policy: str | None) -> tuple[str, float | None]:
    """Name and number of the policy that either of the two asks for."""
    if threshold is not None:
        if policy is not None:
            raise SettingsError(f"threshold {threshold:g} and policy {policy}: give one of them.")
        if not 0.0 <= threshold <= 1.0:
            raise SettingsError(f"threshold {threshold:g}: it must lie in 0 to 1.")
        return "fixed", float(threshold)
    name, _, text = str(policy).partition("=")
    try:
        number = float(with_point(text)) if text else None
    except ValueError:
        number = float("nan")
    needs_number = name in BUDGETS or name == "min_cost"
    if name not in POLICIES or (number is not None) > needs_number or number != number:
        raise SettingsError(
            f"policy {policy}: allowed are max_f1, max_fpr=0.01, min_tpr=0.95, min_cost=10 (a "
            "missed leak costs ten needless digs) and fixed=0.5, with numbers of your own."
        )
    if name == "min_cost":
        number = 10.0 if number is None else number
        if not 0.0 < number < np.inf:
            raise SettingsError(f"policy {policy}: the cost of a missed leak must be above 0.")
        return name, number
    if number is not None and not 0.0 <= number <= 1.0:
        raise SettingsError(f"policy {policy}: its number must lie in 0 to 1.")
    return name, checked_budget(name, number)


def fit_threshold(
    scores: Float[np.ndarray, " R"],
    is_leak: Bool[np.ndarray, " R"],
    policy: str,
    *,
    budget: float | None = None,
    cost_miss: float = 1.0,
    cost_false_dig: float = 1.0,
) -> ThresholdFit:
    """The threshold for `score >= threshold` that is best by `policy`.

    `scores` [R] in 0..1, `is_leak` [R] bool. Policies, with the meaning of `budget`:

    - `max_f1`: the highest F1 of leak;
    - `max_fpr`: the lowest threshold with false-positive rate <= budget (default 0.01);
    - `min_tpr`: the highest threshold with true-positive rate >= budget (default 0.95);
    - `fixed`: the budget itself (default 0.5), nothing is fitted;
    - `min_cost`: the lowest `cost_miss * FN + cost_false_dig * FP` at the leak share of these
      recordings (where leaks are x times rarer in the field, divide `cost_miss` by x).

    Of equally good cuts the one with the fewest alarms is taken, by counts alone: neither the order
    of the recordings nor a strictly increasing map of the scores changes a verdict. The threshold
    is the middle between the neighbouring scores (or a score and the end of [0, 1]), rounded to
    float32 where that keeps the cut; `NEVER` where nothing may be called a leak although a score is
    1. Recordings that do not define the policy (no leaks for `max_f1` and `min_tpr`, no others for
    `max_fpr`, none at all) give 0.5 and a note.
    """
    number = checked_budget(policy, budget)
    if not (
        0.0 <= cost_miss < np.inf
        and 0.0 <= cost_false_dig < np.inf
        and cost_miss + cost_false_dig > 0.0
    ):
        raise SettingsError(
            f"The costs are cost_miss={cost_miss}, cost_false_dig={cost_false_dig}; "
            "they must be finite, not negative and not both 0."
        )
    ranking = rank(scores, is_leak)
    if policy == "fixed" and number is not None:
        return ThresholdFit(number, None)
    cuts = ranking.cuts()
    if (why := _unfittable(policy, cuts)) is not None:
        return ThresholdFit(
            DEFAULT_THRESHOLD, f"{why}: threshold {DEFAULT_THRESHOLD} is a default, not a fit"
        )
    best = _best_cut(cuts, policy, number, cost_miss, cost_false_dig)
    notes = _notes(ranking, cuts, policy, number, best)
    return ThresholdFit(_threshold_at(ranking, best), "; ".join(notes) or None)


def _unfittable(policy: str, cuts: Cuts) -> str | None:
    positives, negatives = cuts.positives[0], cuts.negatives[0]
    if positives + negatives == 0:
        return "no recordings"
    if policy in ("max_f1", "min_tpr") and positives == 0:
        return f"no leaks among {negatives:.0f} recordings, {policy} is undefined"
    if policy == "max_fpr" and negatives == 0:
        return f"all {positives:.0f} recordings are leaks, {policy} is undefined"
    return None


def _best_cut(
    cuts: Cuts, policy: str, budget: float | None, cost_miss: float, cost_false_dig: float
) -> int:
    tp, fp = cuts.tp[0], cuts.fp[0]
    positives, negatives = tp[-1], fp[-1]
    match policy, budget:
        case "max_f1", None:
            # quotients of integers are rounded correctly: equal F1 are equal floats, and argmax
            # takes the fewest alarms
            return int(np.argmax(2.0 * tp / (positives + tp + fp)))
        case "min_cost", None:
            cost = cost_miss * (positives - tp) + cost_false_dig * fp
            return int(np.argmax(cost <= cost.min() * (1.0 + 1e-12)))
        case "max_fpr", float():
            return (
                int(np.searchsorted(fp, np.floor(budget * negatives + COUNT_SLACK), side="right"))
                - 1
            )
        case "min_tpr", float():
            return int(np.searchsorted(tp, np.ceil(budget * positives - COUNT_SLACK), side="left"))
    raise ValueError(f"policy {policy} cannot be fitted with budget {budget}")


def _threshold_at(ranking: Ranking, cut: int) -> float:
    """The threshold of this cut, as far from the scores on both sides as [0, 1] allows."""
    distinct = ranking.distinct
    if cut == 0:
        return NEVER if distinct[0] >= 1.0 else _between(float(distinct[0]), 1.0)
    if cut == len(distinct):
        return _between(0.0, float(distinct[-1])) if distinct[-1] > 0.0 else 0.0
    return _between(float(distinct[cut]), float(distinct[cut - 1]))


def _between(low: float, high: float) -> float:
    """A threshold `low < t <= high` near the middle, a float32 where one lies between them."""
    middle = low + (high - low) / 2.0
    for candidate in (float(np.float32(middle)), float(np.float32(high)), middle):
        if low < candidate <= high:
            return candidate
    return high


def _notes(ranking: Ranking, cuts: Cuts, policy: str, budget: float | None, best: int) -> list[str]:
    positives, negatives = int(cuts.positives[0]), int(cuts.negatives[0])
    notes = []
    if positives + negatives == 1:
        notes.append("fitted on one recording")
    elif len(ranking.distinct) == 1:
        same = f"all {positives + negatives} scores are {ranking.distinct[0]:.6g}"
        notes.append(f"{same}: no threshold tells leaks from the rest")
    if positives == 0:
        notes.append(
            f"no leaks among {negatives} recordings: how many leaks this threshold misses is "
            "unknown"
        )
    if negatives == 0:
        notes.append(
            f"all {positives} recordings are leaks: how many false alarms this threshold raises is "
            "unknown"
        )
    if policy == "max_fpr" and budget is not None and budget * negatives < 1.0 - COUNT_SLACK:
        smallest = f"{negatives} negatives resolve no FPR below {1.0 / negatives:.3g}"
        notes.append(f"{smallest}: a budget of {budget:g} allows none of them to alarm")
    if best == 0:
        notes.append("no recording is called a leak")
    elif best == len(ranking.distinct):
        notes.append("every recording is called a leak")
    return notes
