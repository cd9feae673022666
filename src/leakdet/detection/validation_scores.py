"""Decides anew by the scores of validation recordings, which a model file keeps."""

from dataclasses import replace

from leakdet.detection.decision import DecisionRule
from leakdet.detection.kept_scores import ValidationScores
from leakdet.detection.thresholds import ThresholdFit, checked_policy, fit_threshold
from leakdet.errors import SettingsError

FEW = 20  # recordings of a class; below, one of them moves a rate by more than five points


def redecided(
    rule: DecisionRule,
    validation: ValidationScores | None,
    threshold: float | None = None,
    policy: str | None = None,
) -> tuple[DecisionRule, str]:
    """The rule with another threshold, and a sentence on what that does; neither given: "".

    `policy` is one of `max_f1`, `max_fpr=0.01`, `min_tpr=0.95`, `min_cost=10` (a missed leak costs
    ten needless digs) and `fixed=0.5`.

    Raises:
        SettingsError: both are given, one is out of range, or the policy has to be fitted and the
            model keeps no validation scores.
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
            "threshold on; it is a checkpoint, or made by an older leakdet. Give a threshold "
            "instead, or the model file of a new training."
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
    )
    return chosen, _sentence(rule, chosen, validation)


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
