"""From window probabilities to a verdict per recording: one pure rule, fitted once, then only applied."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from leakdet.detection.calibration import Calibration, fit_calibration, logit, sigmoid
from leakdet.detection.ranking import checked_scores
from leakdet.detection.thresholds import NEVER, POLICIES, ThresholdFit, checked_budget, fit_threshold
from leakdet.errors import InputError, SettingsError

__all__ = [
    "POLICIES",
    "POOLINGS",
    "DecisionRule",
    "ThresholdFit",
    "fit_rule",
    "fit_threshold",
    "pool",
    "rule_for_scores",
    "votes_needed",
]

POOLINGS = ("mean", "vote", "logit_mean")
_BLOCK_WINDOWS = 1 << 20


def votes_needed(windows: Int[np.ndarray, " R"], vote_fraction: float) -> Int[np.ndarray, " R"]:
    """`k = ceil(vote_fraction * n)` for recordings of n windows, at least 1.

    The fraction is read as the nearest one with a denominator of at most 10^6: in floating point ceil(0.1 *
    30) is 4.

    >>> votes_needed(np.array([1, 3, 30]), 0.1)
    array([1, 1, 3])
    """
    share = Fraction(vote_fraction).limit_denominator(1_000_000)
    return np.asarray(np.maximum(1, -(-share.numerator * windows.astype(np.int64) // share.denominator)))


def pool(
    window_prob: Float[np.ndarray, " W"],
    recording_offsets: Int[np.ndarray, " offsets"],
    pooling: str,
    vote_fraction: float = 0.5,
) -> Float[np.ndarray, " R"]:
    """Recording scores in 0..1, float64, from the leak probabilities of their windows.

    Windows of recording r are `recording_offsets[r]:recording_offsets[r + 1]`. Poolings:

    - `vote`: the k-th largest window probability, k = ceil(vote_fraction * n). `score >= t` says exactly that
      at least `vote_fraction` of the windows have a probability >= t. Near 0 it is the maximum, at 1 the
      minimum;
    - `mean`: the mean probability; ranks as well as the vote and has no ties;
    - `logit_mean`: the sigmoid of the mean log-odds, windows as independent witnesses: a sure one counts for
      more.

    A recording's score does not depend on its neighbours. Raises `SettingsError` on an unknown pooling or a
    fraction outside (0, 1], `InputError` on NaN, on a probability outside [0, 1] and on a recording without
    windows, `ValueError` on offsets that do not fit the windows.
    """
    _check_pooling(pooling, vote_fraction)
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


def _check_pooling(pooling: str, vote_fraction: float) -> None:
    if pooling not in POOLINGS:
        raise SettingsError(f"The pooling is {pooling!r}; allowed are {', '.join(POOLINGS)}.")
    if not 0.0 < vote_fraction <= 1.0:
        raise SettingsError(f"vote_fraction is {vote_fraction}; it must lie in (0, 1].")


def _window_counts(offsets: np.ndarray, total: int) -> np.ndarray:
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != total:
        ends = f"{offsets[0]} to {offsets[-1]}" if len(offsets) else "nothing"
        raise ValueError(f"recording_offsets must run from 0 to {total}, the number of windows; found {ends}")
    windows = np.diff(offsets.astype(np.int64))
    if (windows < 0).any():
        raise ValueError(
            f"recording_offsets must not fall; they do after recording {int(np.argmax(windows < 0))}"
        )
    if (windows == 0).any():
        raise InputError(
            f"Recording {int(np.argmax(windows == 0))} (counted from 0) has no windows, so it has no score."
        )
    return windows


def _kth_largest(prob: np.ndarray, starts: np.ndarray, windows: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The k-th largest of each recording's windows [R]; recordings of equal length share one partition."""
    scores = np.empty(len(starts))
    for rows in _equal_length_blocks(windows):
        n = int(windows[rows[0]])
        place = n - int(k[rows[0]])
        block = prob[starts[rows][:, None] + np.arange(n)]
        block.partition(place, axis=1)
        scores[rows] = block[:, place]
    return scores


def _equal_length_blocks(windows: np.ndarray) -> Iterator[np.ndarray]:
    """Indices of recordings with the same number of windows, in blocks that bound the memory of a gather."""
    by_length = np.argsort(windows, kind="stable")
    for rows in np.split(by_length, np.flatnonzero(np.diff(windows[by_length])) + 1):
        size = max(1, _BLOCK_WINDOWS // int(windows[rows[0]]))
        for start in range(0, len(rows), size):
            yield rows[start : start + size]


@dataclass(frozen=True)
class DecisionRule:
    """How a verdict is reached; data that travels with the model.

    `threshold`, in 0..1 or `thresholds.NEVER`, compares with the score of `pooling` and `vote_fraction`.
    `policy` with its `budget` or costs says how it was chosen, `fitted_on` on what (None: not fitted), `note`
    what was odd about that set. `calibration` is for display: verdicts come from the score. Raises
    `SettingsError` on a value outside its range.
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

    def __post_init__(self) -> None:
        _check_pooling(self.pooling, self.vote_fraction)
        checked_budget(self.policy, self.budget)
        if not 0.0 <= self.threshold <= NEVER:
            raise SettingsError(
                f"The decision threshold is {self.threshold}; it must lie in [0, 1] or be {NEVER!r}."
            )

    def score(
        self, window_prob: Float[np.ndarray, " W"], recording_offsets: Int[np.ndarray, " offsets"]
    ) -> Float[np.ndarray, " R"]:
        """Recording scores in 0..1; see `pool`."""
        return pool(window_prob, recording_offsets, self.pooling, self.vote_fraction)

    def decide(self, scores: Float[np.ndarray, " R"]) -> Bool[np.ndarray, " R"]:
        """True where a score reaches the threshold, compared in float64, which holds float32 exactly."""
        return np.asarray(checked_scores(scores) >= self.threshold)

    def probability(self, scores: Float[np.ndarray, " R"]) -> Float[np.ndarray, " R"]:
        """Calibrated leak probabilities of scores in 0..1; the scores themselves without a calibration."""
        return checked_scores(scores) if self.calibration is None else self.calibration.apply(scores)

    def to_json(self) -> dict[str, Any]:
        """A plain dict of str, float, None and the calibration's dict."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return plain | {"calibration": None if self.calibration is None else self.calibration.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "DecisionRule":
        """The inverse of `to_json`.

        Raises `InputError` naming the key that is unknown, missing or of the wrong type, `SettingsError` on a
        bad value.
        """
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(data) - set(known)):
            raise InputError(
                f"The decision rule has unknown keys: {', '.join(unknown)}; known are {', '.join(known)}."
            )
        if missing := [
            name for name in ("pooling", "vote_fraction", "threshold", "policy") if name not in data
        ]:
            raise InputError(f"The decision rule lacks {', '.join(missing)}.")
        return cls(**{name: _from_plain(name, value) for name, value in data.items()})


def _from_plain(name: str, value: object) -> Any:
    """One stored value of a rule, numbers as float (JSON may hold 1 for 1.0)."""
    optional = name not in ("pooling", "vote_fraction", "threshold", "policy")
    if value is None and optional:
        return None
    if name == "calibration":
        return Calibration.from_json(value)
    if name in ("pooling", "policy", "fitted_on", "note"):
        wanted = "text"
        if isinstance(value, str):
            return value
    else:
        wanted = "a finite number"
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    raise InputError(
        f"The decision rule's {name} must be {wanted}{' or null' if optional else ''}; found {value!r}."
    )


def fit_rule(
    window_prob: Float[np.ndarray, " W"],
    recording_offsets: Int[np.ndarray, " offsets"],
    is_leak: Bool[np.ndarray, " R"],
    *,
    pooling: str = "mean",
    vote_fraction: float = 0.5,
    **how: Any,
) -> DecisionRule:
    """Pool, then `rule_for_scores`, whose further arguments are `how`; errors are those of both and of `pool`."""
    scores = pool(window_prob, recording_offsets, pooling, vote_fraction)
    return rule_for_scores(scores, is_leak, pooling=pooling, vote_fraction=vote_fraction, **how)


def rule_for_scores(
    scores: Float[np.ndarray, " R"],
    is_leak: Bool[np.ndarray, " R"],
    *,
    pooling: str,
    vote_fraction: float,
    policy: str = "max_f1",
    budget: float | None = None,
    cost_miss: float = 1.0,
    cost_false_dig: float = 1.0,
    calibration: str = "none",
    fitted_on: str | None = None,
) -> DecisionRule:
    """The rule whose threshold and, if asked, calibration fit recordings already pooled, of the split `fitted_on`.

    Costs that the policy does not use are left out of the rule. Meanings, ranges and errors are those of
    `thresholds.fit_threshold` and `calibration.fit_calibration`.
    """
    fit = fit_threshold(
        scores, is_leak, policy, budget=budget, cost_miss=cost_miss, cost_false_dig=cost_false_dig
    )
    calibrated = fit_calibration(scores, is_leak, calibration)
    costs = {"cost_miss": cost_miss, "cost_false_dig": cost_false_dig} if policy == "min_cost" else {}
    return DecisionRule(
        pooling=pooling,
        vote_fraction=vote_fraction,
        threshold=fit.threshold,
        policy=policy,
        budget=checked_budget(policy, budget),
        fitted_on=fitted_on,
        note="; ".join(part for part in (fit.note, calibrated.note) if part) or None,
        calibration=calibrated.calibration,
        **costs,
    )
