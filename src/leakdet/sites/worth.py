"""What a dig is worth at each site, and the lists and the order that follow.

The scores of a site's nights are pooled into one, and count once: nights at one place are not
independent, so a second night is no second witness.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from leakdet.detection.calibration import fit_calibration, logit, sigmoid
from leakdet.sites.rules import WorklistRules
from leakdet.sites.states import LISTS, Alarms, Levels, State

if TYPE_CHECKING:
    from leakdet.detection.stored_scores import ValidationScores

FEW = 20  # recordings of a class; below, one of them moves a rate by more than five points
# of each of the two rates, so that the interval of a share that is made of both holds to 95 %
RATE_LEVEL = 0.975


@dataclass(frozen=True)
class Evidence:
    """Scores of recordings whose truth is known, under the model's own pooling."""

    scores: Float[np.ndarray, " R"]
    is_leak: Bool[np.ndarray, " R"]
    split: Literal["test", "folds", "validation"]

    @classmethod
    def kept(
        cls,
        tested: "ValidationScores | None",
        validation: "ValidationScores | None",
        by_folds: bool = False,
    ) -> "Evidence | None":
        """What a model file keeps: its test scores, or else those of val; None: neither.

        `by_folds`: its test scores are those of recordings that folds held out of training.
        """
        if tested is not None and len(tested.scores):
            return cls(tested.scores, tested.is_leak, "folds" if by_folds else "test")
        if validation is not None and len(validation.scores):
            return cls(validation.scores, validation.is_leak, "validation")
        return None

    @property
    def leaks(self) -> int:
        """Recordings with a leak."""
        return int(self.is_leak.sum())

    @property
    def others(self) -> int:
        """Recordings without one."""
        return len(self.is_leak) - self.leaks

    def notes(self) -> list[str]:
        """What it rests on, and whether that is enough."""
        of = "held out of training" if self.split == "folds" else f"of the {self.split} split"
        sizes = f"{self.leaks} leaks and {self.others} other recordings {of}"
        if not self.tells:
            return [f"The worth of a dig is unknown: the model keeps {sizes}, and both are needed."]
        text = f"Chances and shares of true leaks rest on the model's scores of {sizes}"
        if self.split == "validation":
            text += ", by which it was also chosen, so expect worse; it keeps no test scores"
        if min(self.leaks, self.others) < FEW:
            text += ": too few to say more than the wide intervals do"
        return [text + ". They hold for sites like those."]

    @property
    def tells(self) -> bool:
        """True if it has recordings with and without a leak."""
        return self.leaks > 0 and self.others > 0


def chances(
    scores: Float[np.ndarray, " S"], odds: Float[np.ndarray, " S"], evidence: Evidence | None
) -> Float[np.ndarray, " S"]:
    """The chance of a leak at sites of these scores and prior odds; NaN where unknown.

    The likelihood ratio of a score is that of a logistic curve, fitted to the evidence. It is held
    between 1 / (leaks + 1) and others + 1: more cannot be known from so few.
    """
    if evidence is None or not evidence.tells:
        return np.full(len(scores), np.nan)
    fitted = fit_calibration(evidence.scores, evidence.is_leak, "platt").calibration
    assert fitted is not None  # both classes are there
    known = ~np.isnan(scores)
    share = np.log(evidence.leaks / evidence.others)
    ratio = fitted.slope * logit(scores[known]) + fitted.offset - share
    ratio = np.clip(ratio, -np.log(evidence.leaks + 1.0), np.log(evidence.others + 1.0))
    result = np.full(len(scores), np.nan)
    result[known] = sigmoid(ratio + np.log(odds[known]))
    return result


def worths(chance: Float[np.ndarray, " S"], rules: WorklistRules) -> Float[np.ndarray, " S"]:
    """Chance × cost of a leak − cost of a dig; NaN where one of them is unknown."""
    if rules.leak_cost is None or rules.dig_cost is None:
        return np.full(len(chance), np.nan)
    return chance * rules.leak_cost - rules.dig_cost


def leak_shares(
    scores: Float[np.ndarray, " S"], odds: Float[np.ndarray, " S"], evidence: Evidence | None
) -> tuple[Float[np.ndarray, " S"], Float[np.ndarray, "S 2"]]:
    """Share of true leaks in a list down to each rank, and its 95 % interval; NaN: unknown.

    By Bayes' rule from the mean prior odds down to there, and the shares of the evidence's leaks
    and other recordings that reach the lowest score so far, each with Wilson's interval.
    """
    shares, intervals = np.full(len(scores), np.nan), np.full((len(scores), 2), np.nan)
    known = np.flatnonzero(~np.isnan(scores))
    if evidence is None or not evidence.tells or not len(known):
        return shares, intervals
    lowest = np.minimum.accumulate(scores[known])
    prior = odds[known] / (1.0 + odds[known])
    prior = np.cumsum(prior) / np.arange(1, len(prior) + 1)
    reached = [
        _reaching(evidence.scores[mask], lowest) for mask in (evidence.is_leak, ~evidence.is_leak)
    ]
    sizes = (evidence.leaks, evidence.others)
    # a rate of 0 or 1 of few recordings is none: half a recording is added on either side
    rates = [(hits + 0.5) / (n + 1.0) for hits, n in zip(reached, sizes, strict=True)]
    ends = [_wilson(hits, n) for hits, n in zip(reached, sizes, strict=True)]
    shares[known] = _share(prior, *rates)
    intervals[known, 0] = _share(prior, ends[0][0], ends[1][1])
    intervals[known, 1] = _share(prior, ends[0][1], ends[1][0])
    return shares, intervals


def _reaching(scores: Float[np.ndarray, " R"], limit: Float[np.ndarray, " S"]) -> np.ndarray:
    return np.asarray(len(scores) - np.searchsorted(np.sort(scores), limit, side="left"))


def _share(prior: np.ndarray, tpr: np.ndarray, fpr: np.ndarray) -> Float[np.ndarray, " S"]:
    true, false = prior * tpr, (1.0 - prior) * fpr
    return np.asarray(np.divide(true, true + false, out=prior.copy(), where=true + false > 0))


def _wilson(hits: Int[np.ndarray, " S"], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Ends of Wilson's interval of each share `hits / n`, as `evaluation.intervals.wilson`."""
    z = NormalDist().inv_cdf((1.0 + RATE_LEVEL) / 2.0)
    share, weight = hits / n, z * z / n
    centre = share + weight / 2.0
    half = np.sqrt(weight * (share * (1.0 - share) + weight / 4.0))
    low, high = (centre - half) / (1.0 + weight), (centre + half) / (1.0 + weight)
    return np.maximum(low, 0.0), np.minimum(high, 1.0)


SUSPECTED: tuple[State, ...] = ("new", "persistent")
NOT_JUDGED = {"broken", "silent logger"}


@dataclass(frozen=True)
class Ranks:
    """Sites by rank, and what is known of each by its id; NaN: unknown."""

    order: list[int]
    part: Int[np.ndarray, " S"]  # the list of each site, by its place in `LISTS`
    score: Float[np.ndarray, " S"]  # by which a list is ordered
    chance: Float[np.ndarray, " S"]
    worth: Float[np.ndarray, " S"]
    leak_share: Float[np.ndarray, " S"]  # from the first of its list down to the site
    interval: Float[np.ndarray, "S 2"]


def rank_sites(
    states: Mapping[int, State],
    unjudged: set[int],
    alarms: Alarms,
    levels: Levels,
    rules: WorklistRules,
    evidence: Evidence | None,
) -> Ranks:
    """Rank the news, then the backlog, then all other sites, each list by the chance of a leak.

    News are suspicions whose beginning was heard, the backlog those that were there from the first
    night on, or in most nights before. Where no chance is known, and among equal ones, the higher
    score comes first, then the louder site. Those in `unjudged`, and silent and broken ones, have
    no chance.
    """
    sites = len(alarms.judged)
    listed = np.array(sorted(states), np.int64)
    part = np.full(sites, LISTS.index("other"))
    score, odds = alarms.recent_score.copy(), np.full(sites, rules.prior / (1.0 - rules.prior))
    for site, state in states.items():
        if state in NOT_JUDGED or site in unjudged:
            score[site] = np.nan
        if state in SUSPECTED:
            always = state == "persistent" and not alarms.onset[site]
            part[site] = LISTS.index("backlog" if always else "news")
            odds[site] *= rules.old_odds if always else 1.0
    chance = chances(score, odds, evidence)
    rise = np.nan_to_num(levels.rise, nan=0.0)
    keys = (-rise, -np.nan_to_num(score, nan=-1.0), -np.nan_to_num(chance, nan=-1.0), part)
    order = listed[np.lexsort([key[listed] for key in keys])]
    share, interval = np.full(sites, np.nan), np.full((sites, 2), np.nan)
    for number in range(len(LISTS)):
        of_list = order[part[order] == number]
        share[of_list], interval[of_list] = leak_shares(score[of_list], odds[of_list], evidence)
    return Ranks(order.tolist(), part, score, chance, worths(chance, rules), share, interval)
