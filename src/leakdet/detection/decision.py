"""The rule from recording scores to verdicts, fitted once, then only applied."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from leakdet.config import DecisionConfig
from leakdet.detection.calibration import Calibration, fit_calibration
from leakdet.detection.pooling import check_pooling, pool
from leakdet.detection.ranking import checked_scores
from leakdet.detection.spectral_reference import LIMITS
from leakdet.detection.thresholds import NEVER, checked_budget, fit_threshold
from leakdet.errors import InputError, SettingsError


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

    Raises:
        SettingsError: a value is outside its range.
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

    def __post_init__(self) -> None:
        check_pooling(self.pooling, self.vote_fraction)
        checked_budget(self.policy, self.budget)
        if self.unfamiliar not in LIMITS:
            raise SettingsError(
                f"unfamiliar is {self.unfamiliar!r}; allowed are {', '.join(LIMITS)}."
            )
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
        """Rebuild a rule from `to_json`.

        Raises:
            InputError: a key is unknown, missing or of the wrong type; it is named.
            SettingsError: a value is outside its range.
        """
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(data) - set(known)):
            raise InputError(
                f"The decision rule has unknown keys: {', '.join(unknown)}; known are "
                f"{', '.join(known)}."
            )
        if missing := [
            name for name in ("pooling", "vote_fraction", "threshold", "policy") if name not in data
        ]:
            raise InputError(f"The decision rule lacks {', '.join(missing)}.")
        return cls(**{name: _from_plain(name, value) for name, value in data.items()})


def _from_plain(name: str, value: object) -> Any:
    """One stored value of a rule, numbers as float (JSON may hold 1 for 1.0)."""
    optional = name not in ("pooling", "vote_fraction", "threshold", "policy", "unfamiliar")
    if value is None and optional:
        return None
    if name == "calibration":
        return Calibration.from_json(value)
    if name in ("pooling", "policy", "fitted_on", "note", "unfamiliar"):
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
