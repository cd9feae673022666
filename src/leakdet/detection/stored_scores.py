"""Scores of validation and test recordings, which a model file keeps.

By those of val a model can decide anew; those of test say what its scores are worth.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from leakdet.config.model import BUDGET_POLICIES
from leakdet.core.errors import SettingsError
from leakdet.detection.decision import DecisionRule
from leakdet.detection.thresholds import ThresholdFit, checked_policy, fit_threshold

if TYPE_CHECKING:
    from torch import Tensor

VAL, TEST = "val", "test"
# tensors of the model file
KEPT = tuple(f"{split}.{what}" for split in (VAL, TEST) for what in ("scores", "is_leak"))
MOST = 100_000  # recordings that a model file keeps, 0.9 MB


@dataclass(frozen=True)
class ValidationScores:
    """Scores of recordings of a split under the model's own pooling, and which are leaks."""

    scores: Float[np.ndarray, " R"]
    is_leak: Bool[np.ndarray, " R"]

    @classmethod
    def of(
        cls, scores: Float[np.ndarray, " R"], is_leak: Bool[np.ndarray, " R"]
    ) -> "ValidationScores":
        """All recordings; of more than 100,000 so many, evenly by class and rank of the score."""
        order = np.lexsort((scores, is_leak))
        if len(order) > MOST:
            order = order[np.linspace(0, len(order) - 1, MOST).round().astype(int)]
        kept = np.sort(order)
        return cls(scores[kept], is_leak[kept])

    def tensors(self, split: str = VAL) -> "dict[str, Tensor]":
        """The scores and labels as tensors of a model file."""
        import torch  # a work list reads the scores without it

        values = (torch.tensor(self.scores), torch.tensor(self.is_leak))
        return dict(zip(_names(split), values, strict=True))

    @classmethod
    def from_file(cls, tensors: Mapping[str, Any], split: str = VAL) -> "ValidationScores | None":
        """Back from the tensors or arrays of a model file; None where it keeps none of `split`."""
        names = _names(split)
        if not set(names) <= tensors.keys():
            return None
        scores, is_leak = (np.asarray(tensors[name]) for name in names)
        ok = scores.dtype == np.float64 and is_leak.dtype == bool and scores.ndim == 1
        if not ok or scores.shape != is_leak.shape:
            raise ValueError(f"{' and '.join(names)} do not fit together")
        return cls(scores, is_leak)


def _names(split: str) -> tuple[str, ...]:
    return tuple(name for name in KEPT if name.startswith(f"{split}."))


FEW = 20  # recordings of a class; below, one of them moves a rate by more than five points


def redecided(
    rule: DecisionRule,
    validation: ValidationScores | None,
    threshold: float | None = None,
    policy: str | None = None,
) -> tuple[DecisionRule, str]:
    """The rule with another threshold, and a sentence on what that does; neither given: "".

    `policy` is one of `max_f1`, `max_fpr=0.01`, `min_tpr=0.95`, `min_cost=10` (a missed leak costs
    ten needless digs) and `fixed=0.5`. A budget or a cost leaves nothing in doubt.
    """
    if threshold is None and policy is None:
        return rule, ""
    name, number = checked_policy(threshold, policy)
    costs: dict[str, float] = {}
    if name == "min_cost" and number is not None:
        costs = {"cost_miss": number, "cost_false_dig": 1.0}
    budget = None if costs else number
    if name == "fixed" and number is not None:
        fit, fitted_on = ThresholdFit(number, None), None
    elif validation is None:
        raise SettingsError(
            f"policy {policy}: the model keeps no scores of its validation recordings to fit a "
            "threshold on, as a checkpoint does. Give a threshold instead, or the model file of "
            "the training."
        )
    else:
        scores, is_leak = validation.scores, validation.is_leak
        fit, fitted_on = fit_threshold(scores, is_leak, name, budget=budget, **costs), "val"
    chosen = replace(
        rule,
        threshold=fit.threshold,
        policy=name,
        budget=budget,
        cost_miss=costs.get("cost_miss"),
        cost_false_dig=costs.get("cost_false_dig"),
        fitted_on=fitted_on,
        note=fit.note,
        doubt=0.0 if name in BUDGET_POLICIES else rule.doubt,
    )
    return chosen, _sentence(rule, chosen, validation)


def undecided_anew(own: DecisionRule, changes: Mapping[str, Any]) -> str:
    """A sentence on what is undecided by other settings than the model's own; "" where none is.

    >>> undecided_anew(DecisionRule(doubt=0.2), {"doubt": 0.0, "source": "rate"})
    "decided anew: doubt=0.0 instead of the model's own doubt=0.2, for which alone ..."
    """
    differing = {name: value for name, value in changes.items() if value != getattr(own, name)}
    if not differing:
        return ""
    now = ", ".join(f"{name}={value}" for name, value in differing.items())
    before = ", ".join(f"{name}={getattr(own, name)}" for name in differing)
    text = f"decided anew: {now} instead of the model's own {before}"
    return f"{text}, for which alone its evaluation holds."


def _sentence(own: DecisionRule, now: DecisionRule, validation: ValidationScores | None) -> str:
    number = now.cost_miss if now.policy == "min_cost" else now.budget
    asked = now.policy if number is None else f"{now.policy}={number:g}"
    by = "" if now.policy == "fixed" else f" by {asked}"
    text = f"decided anew{by}: threshold {now.threshold:.4g} instead of the model's own "
    text += f"{own.threshold:.4g} ({own.policy}), for which alone its evaluation holds. "
    if validation is None:
        return text + "It keeps no validation scores, so what the threshold misses is unknown."
    is_leak, called = validation.is_leak, now.decide(validation.scores)
    leaks, others = int(is_leak.sum()), int((~is_leak).sum())
    text += f"On {len(is_leak)} validation recordings it finds {int(called[is_leak].sum())} of "
    text += f"{leaks} leaks and raises {int(called[~is_leak].sum())} false alarms on {others} "
    text += "without one."
    if now.fitted_on:
        text += " It was fitted on these, so expect worse on new ones."
    if min(leaks, others) < FEW:
        text += " So few recordings give rough numbers."
    return f"{text} ({now.note}.)" if now.note else text
