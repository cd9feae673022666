"""The report's verdict in one sentence, and the cautions that belong to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leakdet.detection.met_recordings import group_sentences
from leakdet.evaluation.audit_findings import luck_findings
from leakdet.evaluation.met_in_training import met_sentences
from leakdet.reporting.wording import counted, percent_range

WEAK_AUROC = 0.75
FEW = 30  # recordings of a class; below, one recording moves a rate by more than three points


@dataclass(frozen=True)
class Verdict:
    """`grade` (good, weak, bad, unknown) colours the page, `label` says the same in words."""

    grade: str
    label: str
    sentence: str
    advice: str


def verdict(
    table: Mapping[str, Any],
    audit: Mapping[str, Any] | None = None,
    met: Mapping[str, Any] | None = None,
) -> Verdict:
    """Judge the recordings' metrics of one split; `met` is `met_in_training` of metrics.json.

    Good: the 95 % interval of the AUROC lies above 0.75. Weak: above 0.5 only, or a trivial trait
    does nearly as well (`audit["sentence"]`). Bad: not above 0.5. Unknown: a class is missing,
    or the model has met every recording.
    """
    if met and met["recordings"] and met["met"] == met["recordings"]:
        return Verdict(
            "unknown",
            "Not judged",
            f"The model has met all {met['recordings']} recordings in training: they say nothing "
            "about new ones.",
            "Evaluate it on recordings that it has never met.",
        )
    positives, negatives = table["positives"], table["negatives"]
    leaks = f"found {table['tp']} of {counted(positives, 'leak')}"
    alarms = (
        f"raised {counted(table['fp'], 'false alarm')} on {counted(negatives, 'recording')} "
        "without a leak"
    )
    if positives == 0 or negatives == 0:
        missing, fact = ("a leak", alarms) if positives == 0 else ("no leak", leaks)
        return Verdict(
            "unknown",
            "Cannot be judged",
            f"No recording has {missing}; the detector {fact}.",
            "Evaluate it on recordings with and without leaks.",
        )
    facts = f"It {leaks} and {alarms}."
    interval = table["intervals"]["auroc"]
    if interval is None:
        return Verdict(
            "unknown",
            "Cannot be judged",
            f"Too few recordings for an interval. {facts}",
            "Evaluate it on more recordings.",
        )
    if interval[0] <= 0.5:
        (luck,) = luck_findings({"auroc": table["auroc"], "interval": interval})
        return Verdict("bad", "Do not rely on it", f"{luck} {facts}", "Do not plan digs by it.")
    if audit and audit["sentence"]:
        return Verdict(
            "weak",
            "In doubt",
            f"It may have learnt a shortcut instead of leaks. {facts}",
            "Do not plan digs by it before it is tested on recordings without the shortcut.",
        )
    if interval[0] <= WEAK_AUROC:
        return Verdict(
            "weak",
            "Use with care",
            f"Better than guessing, but by how much is uncertain. {facts}",
            "Dig only where other evidence agrees.",
        )
    return Verdict(
        "good",
        "Tells leaks apart",
        facts,
        "Use it to choose where to look first; how many digs would find a leak is shown below.",
    )


def own_verdict(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict on the last split of a training, as the model file keeps it, with its reasons."""
    split = metrics["splits"][-1]
    table = metrics[split]["recording"]
    judged = verdict(table, metrics.get("audit"))
    reasons = cautions(split, table, metrics)
    return {
        "split": split,
        "grade": judged.grade,
        "label": judged.label,
        "sentence": judged.sentence,
        "cautions": reasons,
    }


def expectation(table: Mapping[str, Any]) -> str | None:
    """The intervals of recall and FPR as shares of leaks and places."""
    recall, fpr = table["intervals"]["recall"], table["intervals"]["fpr"]
    if recall is None or fpr is None:
        return None
    return (
        f"At places like these, expect it to find {percent_range(recall)} of the leaks and to "
        f"raise a false alarm at {percent_range(fpr)} of the places without one "
        "(95\u00a0% intervals)."
    )


def cautions(split: str, table: Mapping[str, Any], metrics: Mapping[str, Any]) -> list[str]:
    """Sentences on the limits of the numbers, most important first."""
    rule = metrics["decision_rule"] or {}
    group_by = metrics["group_by"]
    audit = metrics.get("audit") or {}
    columns = " and ".join(group_by)
    sentences = []
    if metrics.get("settings", {}).get("data", {}).get("shuffle_labels"):
        sentences.append(
            "The labels were shuffled on purpose (a null test): do not use this model."
        )
    if audit.get("sentence"):
        sentences.append(str(audit["sentence"]))
    if split in ("val", rule.get("fitted_on")):
        sentences.append(
            f"The decision threshold was fitted on these recordings ({split}). Expect slightly "
            "worse results on new ones."
        )
    sentences += _separation(metrics)
    if group_by and table["intervals"]["unit"] == "recording":
        sentences.append(
            f"Too few values of {columns} are here to resample them, so the intervals do not cover "
            f"how results differ from one {columns} to another."
        )
    if table["positives"] < FEW or table["negatives"] < FEW:
        sentences.append(
            f"Few recordings ({table['positives']} with a leak, {table['negatives']} without): "
            "every number here is uncertain."
        )
    # Only the parts of the note that a reader needs; all of it stands above the table of all
    # numbers.
    for part in (table["intervals"]["note"] or "").split("; "):
        if part.startswith(("the intervals", "no interval")):
            unit = f"values of {columns}" if group_by else "groups"
            sentence = f"{part[0].upper()}{part[1:]}."
            sentences.append(sentence.replace(" groups only", f" {unit} only"))
    if rule.get("note"):
        sentences.append(f"About the threshold: {rule['note']}.")
    return sentences


def _separation(metrics: Mapping[str, Any]) -> list[str]:
    """What training shares with the judged recordings, as far as model and store tell."""
    met, groups = metrics.get("met_in_training"), metrics.get("groups_met")
    sentences = met_sentences(met) if "met_in_training" in metrics else []
    told = {column: count for column, count in (groups or {}).items() if count["values"]}
    if told:
        return sentences + [_capitalised(sentence) for sentence in group_sentences(told)]
    if "groups_met" not in metrics and metrics["group_by"]:
        columns = " and ".join(metrics["group_by"])
        return [
            *sentences,
            f"Training and test recordings never share a {columns}, so the numbers hold for a new "
            f"{columns}.",
        ]
    return [
        *sentences,
        "Training and test recordings may come from the same sites. Expect worse results at new "
        "sites.",
    ]


def _capitalised(sentence: str) -> str:
    column, _, rest = sentence.partition(": ")
    return f"Column {column}: {rest}"
