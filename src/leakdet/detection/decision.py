"""From window probabilities to a recording's score and its verdict."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from leakdet.config import DecisionConfig
from leakdet.core.errors import InputError, SettingsError
from leakdet.detection.calibration import Calibration, fit_calibration, logit, sigmoid
from leakdet.detection.thresholds import NEVER, checked_budget, checked_scores, fit_threshold

POOLINGS = ("mean", "vote", "logit_mean")
_BLOCK_WINDOWS = 1 << 20
MARGIN = 1.25  # the limit of familiarity beside the percentile of what is left out
# Familiarity above which a recording is unfamiliar; strict takes the percentile itself.
LIMITS = {"off": np.inf, "normal": 1.0, "strict": 1 / MARGIN}
SOURCES = ("rate", "off")
Threshold = TypeVar("Threshold", float, np.ndarray)


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


def doubt_limits(threshold: Threshold, doubt: float) -> tuple[Threshold, Threshold]:
    """The scores between which a recording is in doubt; twice the threshold where none is.

    Their odds are those of the threshold divided and multiplied by (0.5 + doubt) / (0.5 - doubt).
    A threshold of 0, of 1 or that nothing reaches has odds of 0 or infinity, and no doubt.

    >>> doubt_limits(0.5, 0.2)
    (0.3, 0.7)
    """
    if not doubt:
        return threshold, threshold
    near, far, other = 0.5 - doubt, 0.5 + doubt, 1.0 - threshold
    lower = threshold * near / (threshold * near + other * far)
    return lower, threshold * far / (threshold * far + other * near)


def in_doubt(
    scores: Float[np.ndarray, " R"],
    threshold: float | Float[np.ndarray, " R"],
    doubt: float,
) -> Bool[np.ndarray, " R"]:
    """True where a score is too close to the threshold, which may be one for each recording."""
    lower, upper = doubt_limits(np.asarray(threshold, np.float64), doubt)
    checked = checked_scores(scores)
    return np.asarray((checked > lower) & (checked < upper))


def checked_doubt(doubt: float) -> float:
    """The doubt; `SettingsError` outside [0, 0.5)."""
    if not 0.0 <= doubt < 0.5:
        raise SettingsError(f"doubt is {doubt:g}; it must lie in 0 (none) to below 0.5.")
    return doubt


@dataclass(frozen=True)
class DecisionRule:
    """A decision rule, saved in the model file.

    Attributes:
        pooling, vote_fraction: how windows become a score; see `pooling.pool`.
        threshold: of the score, in 0..1 or `thresholds.NEVER`.
        policy, budget, cost_miss, cost_false_dig: how the threshold was chosen.
        fitted_on: the split on which it was fitted; None: not fitted.
        note: what limits the threshold or the calibration.
        calibration: of the displayed probability; verdicts come from the score.
        unfamiliar: off, normal or strict; how unlike training an undecided recording is.
        doubt: how near the threshold an undecided recording is, 0 (off) to 0.5; see `doubt_limits`.
        source: rate or off; whether a recording of an unknown source rate is undecided.
    """

    pooling: str = "mean"
    vote_fraction: float = 0.5
    threshold: float = 0.5
    policy: str = "fixed"
    budget: float | None = None
    cost_miss: float | None = None
    cost_false_dig: float | None = None
    fitted_on: str | None = None
    note: str | None = None
    calibration: Calibration | None = None
    unfamiliar: str = "normal"
    doubt: float = 0.0
    source: str = "rate"

    def __post_init__(self) -> None:
        check_pooling(self.pooling, self.vote_fraction)
        checked_budget(self.policy, self.budget)
        checked_doubt(self.doubt)
        for name, allowed in (("unfamiliar", LIMITS), ("source", SOURCES)):
            if (value := getattr(self, name)) not in allowed:
                raise SettingsError(f"{name} is {value!r}; allowed are {', '.join(allowed)}.")
        if not 0.0 <= self.threshold <= NEVER:
            raise SettingsError(
                f"The decision threshold is {self.threshold}; it must lie in [0, 1] or be "
                f"{NEVER!r}."
            )

    def score(
        self, window_prob: Float[np.ndarray, " W"], recording_offsets: Int[np.ndarray, " offsets"]
    ) -> Float[np.ndarray, " R"]:
        """Recording scores in 0..1; see `pool`."""
        return pool(window_prob, recording_offsets, self.pooling, self.vote_fraction)

    def decide(self, scores: Float[np.ndarray, " R"]) -> Bool[np.ndarray, " R"]:
        """True where a score reaches the threshold, compared in float64."""
        return np.asarray(checked_scores(scores) >= self.threshold)

    def is_unfamiliar(self, familiarity: Float[np.ndarray, " R"]) -> Bool[np.ndarray, " R"]:
        """True where a recording is too unlike those of training to be decided."""
        return np.asarray(familiarity > LIMITS[self.unfamiliar])

    @property
    def doubt_limits(self) -> tuple[float, float]:
        """The scores between which a recording is in doubt; twice the threshold where none is."""
        return doubt_limits(self.threshold, self.doubt)

    def in_doubt(self, scores: Float[np.ndarray, " R"]) -> Bool[np.ndarray, " R"]:
        """True where a score is too close to the threshold to be decided."""
        return in_doubt(scores, self.threshold, self.doubt)

    def undecided(
        self,
        scores: Float[np.ndarray, " R"],
        familiarity: Float[np.ndarray, " R"] | None = None,
        other_source: Bool[np.ndarray, " R"] | None = None,
    ) -> Shaped[np.ndarray, " R"]:
        """The first reason why each recording with sound is undecided, "" where it is decided."""
        reason = np.where(self.in_doubt(scores), "doubt", "")
        if familiarity is not None:
            reason = np.where(self.is_unfamiliar(familiarity), "unfamiliar", reason)
        if other_source is not None and self.source == "rate":
            reason = np.where(other_source, "other_source", reason)
        return reason

    def doubt_text(self) -> str:
        """The scores in doubt, as `leak_prob 0.3 to 0.7`, also calibrated; "" where none is.

        >>> DecisionRule(pooling="vote", doubt=0.2).doubt_text()
        'leak_prob 0.3 to 0.7, as 0.5 of the windows reach 0.3 and fewer 0.7'
        """
        lower, upper = self.doubt_limits
        if not lower < upper:
            return ""
        text = f"leak_prob {lower:.3g} to {upper:.3g}"
        if self.pooling == "vote":
            text += f", as {self.vote_fraction:g} of the windows reach {lower:.3g} and fewer "
            text += f"{upper:.3g}"
        if self.calibration is not None:
            low, high = self.probability(np.array([lower, upper])).tolist()
            text += f"; calibrated {low:.3g} to {high:.3g}"
        return text

    def probability(self, scores: Float[np.ndarray, " R"]) -> Float[np.ndarray, " R"]:
        """Calibrated leak probabilities; without a calibration the scores themselves."""
        return (
            checked_scores(scores) if self.calibration is None else self.calibration.apply(scores)
        )

    def to_json(self) -> dict[str, Any]:
        """A plain dict of str, float, None and the calibration's dict."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return plain | {
            "calibration": None if self.calibration is None else self.calibration.to_json()
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "DecisionRule":
        """Rebuild a rule from `to_json`; one from before `doubt` and `source` has no doubt."""
        known = [field.name for field in fields(cls)]
        data = {"doubt": 0.0, "source": "rate", **data}
        if unknown := sorted(set(data) - set(known)):
            raise InputError(
                f"The decision rule has unknown keys: {', '.join(unknown)}; known are "
                f"{', '.join(known)}."
            )
        if missing := [name for name in known if name not in data]:
            raise InputError(f"The decision rule lacks {', '.join(missing)}.")
        return cls(**{name: _from_plain(name, value) for name, value in data.items()})


OPTIONAL_TEXTS = ("fitted_on", "note")


def _from_plain(name: str, value: object) -> Any:
    """One stored value of a rule, numbers as float (JSON may hold 1 for 1.0)."""
    optional = name in ("budget", "cost_miss", "cost_false_dig", *OPTIONAL_TEXTS, "calibration")
    if value is None and optional:
        return None
    if name == "calibration":
        return Calibration.from_json(value)
    if name in ("pooling", "policy", "unfamiliar", "source", *OPTIONAL_TEXTS):
        wanted = "text"
        if isinstance(value, str):
            return value
    else:
        wanted = "a finite number"
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    raise InputError(
        f"The decision rule's {name} must be {wanted}{' or null' if optional else ''}; "
        f"found {value!r}."
    )


def fit_rule(
    window_prob: Float[np.ndarray, " W"],
    recording_offsets: Int[np.ndarray, " offsets"],
    is_leak: Bool[np.ndarray, " R"],
    decision: DecisionConfig,
    fitted_on: str | None = None,
) -> DecisionRule:
    """Pool, then `rule_for_scores`; errors are those of both and of `pool`."""
    scores = pool(window_prob, recording_offsets, decision.pooling, decision.vote_fraction)
    return rule_for_scores(scores, is_leak, decision, fitted_on)


def rule_for_scores(
    scores: Float[np.ndarray, " R"],
    is_leak: Bool[np.ndarray, " R"],
    decision: DecisionConfig,
    fitted_on: str | None = None,
) -> DecisionRule:
    """Fit threshold and, if asked, calibration on pooled recordings of the split `fitted_on`.

    The policy `auto` is max_f1 here; a training decides before whether it is. Costs that the policy
    does not use are left out of the rule. Meanings, ranges and errors are those of
    `thresholds.fit_threshold` and `calibration.fit_calibration`.
    """
    policy = "max_f1" if decision.policy == "auto" else decision.policy
    fits = policy != "fixed" or decision.calibration != "none"
    budget = _budget(decision)
    costs = {"cost_miss": decision.cost_miss, "cost_false_dig": decision.cost_false_dig}
    fit = fit_threshold(scores, is_leak, policy, budget=budget, **costs)
    calibrated = fit_calibration(scores, is_leak, decision.calibration)
    return DecisionRule(
        pooling=decision.pooling,
        vote_fraction=decision.vote_fraction,
        threshold=fit.threshold,
        policy=policy,
        budget=checked_budget(policy, budget),
        fitted_on=fitted_on if fits else None,
        note="; ".join(part for part in (fit.note, calibrated.note) if part) or None,
        calibration=calibrated.calibration,
        unfamiliar=decision.unfamiliar,
        doubt=replace(decision, policy=policy).doubt_used,
        source=decision.source,
        **(costs if policy == "min_cost" else {}),
    )


def _budget(decision: DecisionConfig) -> float | None:
    """The number that the policy takes, if it takes one."""
    match decision.policy:
        case "max_fpr":
            return decision.max_fpr
        case "min_tpr":
            return decision.min_tpr
        case "fixed":
            return decision.threshold
    return None
