"""The one sentence that a reader takes home, and the sentences that keep it honest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakdet.reporting.wording import counted, percent_range

WEAK_AUROC = 0.75
FEW = 30  # recordings of a class; below, one recording moves a rate by more than three points


@dataclass(frozen=True)
class Verdict:
    """`grade` is good, weak, bad or unknown; `label` says it in words, so that no colour has to; `advice` is what to do now."""

    grade: str
    label: str
    sentence: str
    advice: str


def verdict(table: Mapping[str, Any], audit: Mapping[str, Any] | None = None) -> Verdict:
    """Judge the recordings' metrics of one split.

    Good: the 95 % interval of the AUROC lies above 0.75; weak: above 0.5 only, or a trivial trait does nearly as well
    (`audit.sentence`); bad: it holds 0.5 or lies below; unknown: leaks or other recordings are missing.
    """
    positives, negatives = table["positives"], table["negatives"]
    found = f"it found {table['tp']} of {counted(positives, 'leak')}"
    alarms = f"raised {counted(table['fp'], 'false alarm')} on {counted(negatives, 'recording')} without a leak"
    if positives == 0 or negatives == 0:
        lacking = "a leak" if positives == 0 else "no leak"
        fact = alarms if positives == 0 else found.removeprefix("it ")
        sentence = f"No recording has {lacking}; the detector {fact}."
        advice = f"Judge it on recordings of which some have {lacking}."
        return Verdict("unknown", "Cannot be judged", sentence, advice)
    low = _low(table)
    facts = f"{found} and {alarms}."
    if low is None:
        return Verdict(
            "unknown",
            "Cannot be judged",
            f"Too few recordings: {facts}",
            "Judge it on more of them.",
        )
    if low <= 0.5:
        return Verdict(
            "bad", "Do not rely on it", f"{_against_guessing(table)}: {facts}", "Plan no dig by it."
        )
    if audit and audit.get("sentence"):
        sentence = f"It may have learnt a shortcut, not the leak: {facts}"
        return Verdict(
            "weak",
            "In doubt",
            sentence,
            "Plan no dig by it before it is judged on recordings without the shortcut.",
        )
    if low <= WEAK_AUROC:
        sentence = f"Better than guessing, by how much is uncertain: {facts}"
        return Verdict(
            "weak", "Use with care", sentence, "Dig only where other evidence agrees with it."
        )
    advice = "Use it to choose where to look first; below is how many digs would pay off."
    return Verdict("good", "Tells leaks apart", facts[0].upper() + facts[1:], advice)


def _against_guessing(table: Mapping[str, Any]) -> str:
    """What an interval of the AUROC that is not above 0.5 allows to say."""
    if table["intervals"]["auroc"][1] < 0.5:
        return "Worse than guessing here"
    if table["auroc"] <= 0.5:
        return "No better than guessing here"
    return "These recordings are too few to show that it is better than guessing"


def _low(table: Mapping[str, Any]) -> float | None:
    interval = table["intervals"].get("auroc")
    return None if interval is None else float(interval[0])


def expectation(table: Mapping[str, Any]) -> str | None:
    """What the intervals mean in numbers of leaks and digs."""
    recall, fpr = table["intervals"].get("recall"), table["intervals"].get("fpr")
    if recall is None or fpr is None:
        return None
    return (
        f"At places like these, expect it to find {percent_range(recall)} of the leaks, and to raise a false alarm at "
        f"{percent_range(fpr)} of the places without one (95 % intervals)."
    )


def cautions(split: str, table: Mapping[str, Any], metrics: Mapping[str, Any]) -> list[str]:
    """What a reader must know before believing the numbers, most important first."""
    said = []
    if _nested(metrics, "settings", "data", "shuffle_labels"):
        said.append(
            "The labels were shuffled on purpose: this is a null test, and its model is worth nothing."
        )
    audit = metrics.get("audit")
    if audit and audit.get("sentence"):
        said.append(str(audit["sentence"]))
    if split == "val" or split == _nested(metrics, "decision_rule", "fitted_on"):
        said.append(
            f"The decision threshold was fitted on these recordings ({split}): on others, expect somewhat worse."
        )
    group_by = metrics.get("group_by") or []
    said.append(separation(group_by))
    if group_by and table["intervals"].get("unit") == "recording":
        names = " and ".join(group_by)
        said.append(
            f"There are too few values of {names} here to resample those: what another {names} brings is not in the "
            "intervals."
        )
    if table["positives"] < FEW or table["negatives"] < FEW:
        said.append(
            f"Few recordings: {table['positives']} with a leak and {table['negatives']} without, so the intervals are wide."
        )
    # The part that matters to a reader; the whole note stands under all numbers.
    parts = (table["intervals"].get("note") or "").split("; ")
    unit = f"values of {' and '.join(group_by)}" if group_by else "groups"
    said += [
        f"{part[0].upper()}{part[1:]}.".replace(" groups only", f" {unit} only")
        for part in parts
        if part.startswith(("the intervals", "no interval"))
    ]
    note = _nested(metrics, "decision_rule", "note")
    if note:
        said.append(f"About the threshold: {note}.")
    return said


def separation(group_by: Sequence[str]) -> str:
    if group_by:
        names = " and ".join(group_by)
        return f"Training and judging never share a {names}: the numbers hold for a {names} that it has not heard."
    return (
        "Nothing says that training and judging share no site, sensor or day; where they do, expect worse at places "
        "that it has not heard."
    )


def _nested(values: Mapping[str, Any], *keys: str) -> Any:
    found: Any = values
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
