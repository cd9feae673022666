"""The report's verdict in one sentence, and the cautions that belong to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from leakdet.core.files import from_here
from leakdet.core.messages import LOG, log_result
from leakdet.detection.met import group_sentences
from leakdet.evaluation.audit import luck_findings
from leakdet.evaluation.intervals import wilson
from leakdet.evaluation.met import all_met, met_sentences, start_sentences
from leakdet.reporting.pages import counted, number, number_range, percent, percent_range

WEAK_AUROC = 0.75
MANY_ALARMS = 0.2  # of the recordings without a leak
FEW_FOUND = 0.5  # of the leaks
FEW = 30  # recordings of a class; below, one recording moves a rate by more than three points


@dataclass(frozen=True)
class Judgement:
    """`grade` (good, weak, bad, unknown) colours the page, `label` says the same in words."""

    grade: str
    label: str
    sentence: str
    advice: str
    doubted: bool = False  # the numbers may not be about leaks at new places

    @property
    def promises(self) -> bool:
        """True where such numbers may be expected at new places."""
        return self.grade != "unknown" and not self.doubted


def judge(table: Mapping[str, Any], metrics: Mapping[str, Any]) -> Judgement:
    """Judge the recordings' metrics of one split; `metrics` is the content of metrics.json.

    Good: the 95 % interval of the AUROC lies above 0.75, that of the false alarm rate below 20 %
    and that of the recall above 50 %. Weak: one of these does not, a trivial trait does nearly as
    well, or whether the model has met the recordings is unknown. Bad: the AUROC may be that of
    guessing. Unknown: a class is missing, the model has met every recording, or its labels were
    shuffled. Where the recordings are synthetic, the first sentence says so.
    """
    judged = _judgement(table, metrics)
    if not metrics.get("synthetic"):
        return judged
    return replace(
        judged,
        sentence=f"These recordings are synthetic. {judged.sentence}",
        advice="This says nothing about real pipes: train on recordings of your own.",
        doubted=True,
    )


def _judgement(table: Mapping[str, Any], metrics: Mapping[str, Any]) -> Judgement:
    not_judged = partial(Judgement, "unknown", "Not judged")
    if _is_null_run(metrics):
        return not_judged(
            "The labels were shuffled on purpose (a null test), so that there was nothing to "
            "learn.",
            "Do not use this model; the audit says whether the null test was passed.",
        )
    start = metrics.get("started_from") or {}
    on_val = metrics.get("splits", [])[-1:] == ["val"]
    if on_val and (start.get("val") or {}).get("train"):
        advice = "Evaluate it on recordings that neither model has met."
        return not_judged(start_sentences(start)[0], advice)
    met = metrics.get("met_in_training")
    if met and all_met(met):
        return not_judged(
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
    unjudged = partial(Judgement, "unknown", "Cannot be judged")
    doubted = partial(Judgement, "weak", "In doubt", doubted=True)
    if positives == 0 or negatives == 0:
        missing, fact = ("a leak", alarms) if positives == 0 else ("no leak", leaks)
        both = "Evaluate it on recordings with and without leaks."
        return unjudged(f"No recording has {missing}; the detector {fact}.", both)
    facts = f"It {leaks} and {alarms}."
    interval = table["intervals"]["auroc"]
    if interval is None:
        few = f"Too few recordings for an interval. {facts}"
        return unjudged(few, "Evaluate it on more recordings.")
    if interval[0] <= 0.5:
        (luck,) = luck_findings({"auroc": table["auroc"], "interval": interval})
        return Judgement("bad", "Do not rely on it", f"{luck} {facts}", "Do not plan digs by it.")
    if (metrics.get("audit") or {}).get("sentence"):
        return doubted(
            f"It may have learnt a shortcut instead of leaks. {facts}",
            "Do not plan digs by it before it is tested on recordings without the shortcut.",
        )
    if "met_in_training" in metrics and met is None:
        return doubted(
            f"Whether the model has met these recordings in training is unknown. {facts}",
            "Train or build the store anew: the files then keep what tells.",
        )
    if on_val and _chosen_by_val(metrics):
        return doubted(
            f"The same recordings (val) chose the weights or the threshold. {facts}",
            "Evaluate it on recordings that took no part in its training.",
        )
    label, doubt = _doubt(table)
    if doubt:
        return Judgement("weak", label, f"{doubt} {facts}", "Dig only where other evidence agrees.")
    return Judgement(
        "good",
        "Tells leaks apart",
        facts,
        "Use it to choose where to look first; how many digs would find a leak is shown below.",
    )


def _is_null_run(metrics: Mapping[str, Any]) -> bool:
    return bool(metrics.get("settings", {}).get("data", {}).get("shuffle_labels"))


def _chosen_by_val(metrics: Mapping[str, Any]) -> bool:
    fixed = metrics.get("settings", {}).get("stop", {}).get("name") == "fixed"
    return not fixed or (metrics["decision_rule"] or {}).get("fitted_on") == "val"


def _doubt(table: Mapping[str, Any]) -> tuple[str, str]:
    """Label and sentence on what is not good enough, or not shown to be; empty where all is."""
    fpr = _widest(table["intervals"]["fpr"], table["fp"], table["negatives"])
    recall = _widest(table["intervals"]["recall"], table["tp"], table["positives"])
    if table["fpr"] >= MANY_ALARMS:
        return "Too many false alarms", "A dig by its word would often find no leak."
    if table["recall"] <= FEW_FOUND:
        return "Misses too many leaks", "It ranks leaks high, but calls too few of them."
    care = "Use with care"
    if table["intervals"]["auroc"][0] <= WEAK_AUROC:
        return care, "Better than guessing, but by how much is uncertain."
    if fpr[1] >= MANY_ALARMS:
        return care, (
            "Too few recordings without a leak to rule out many false alarms: anything from "
            f"{percent_range(fpr)} is possible."
        )
    if recall[0] <= FEW_FOUND:
        return care, (
            f"Too few leaks to rule out many misses: anything from {percent_range(recall)} found "
            "is possible."
        )
    return "", ""


def _widest(interval: Sequence[float] | None, hits: int, n: int) -> tuple[float, float]:
    """Ends of a bootstrap interval and of Wilson's together: few groups make the first narrow."""
    ends = [*(interval or ()), *(wilson(hits, n) or ())]
    return min(ends), max(ends)


def own_verdict(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict on the last split of a training, as the model file keeps it, with its reasons."""
    split = metrics["splits"][-1]
    table = metrics[split]["recording"]
    judged = judge(table, metrics)
    reasons = cautions(split, table, metrics)
    return {
        "split": split,
        "grade": judged.grade,
        "label": judged.label,
        "sentence": judged.sentence,
        "cautions": reasons,
    }


def cards(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """The headline: name, value, interval, and the counts behind it."""

    def card(key: str, name: str, basis: str, as_share: bool = True) -> dict[str, str]:
        value, interval = table[key], table["intervals"][key]
        shown, ends = (percent, percent_range) if as_share else (number, number_range)
        undefined = str(table["undefined"].get(key, "undefined"))
        return {
            "name": name,
            "value": shown(value),
            "interval": ends(interval) if value is not None else undefined,
            "basis": basis,
        }

    tp, fp = table["tp"], table["fp"]
    return [
        card("recall", "of the leaks found (recall)", f"{tp} of {table['positives']}"),
        card("fpr", "false alarm rate (FPR)", f"{fp} of {table['negatives']}"),
        card("precision", "of the alarms are leaks (precision)", f"{tp} of {tp + fp}"),
        card("f1", "F1 of leak", "1 is perfect", as_share=False),
        card("auroc", "AUROC", "1 is perfect, 0.5 is guessing", as_share=False),
    ]


SHORT = {  # names of the cards in a line of several
    "of the leaks found (recall)": "leaks found",
    "false alarm rate (FPR)": "false alarms",
    "of the alarms are leaks (precision)": "alarms that are leaks",
    "F1 of leak": "F1",
    "AUROC": "AUROC",
}


def log_summary(
    metrics: Mapping[str, Any], folder: Path | None = None, following: str = "", brief: bool = False
) -> None:
    """Log the verdict, five numbers with intervals, what is most uncertain, and what is next.

    `metrics` is the content of metrics.json, `folder` holds its report, `following` is a command.
    `brief`: the numbers take two lines, for a verb that has more to say before them.
    """
    verdict = own_verdict(metrics)
    log_result(f"verdict  {verdict['label']}. {verdict['sentence']}")
    shown = cards(metrics[verdict["split"]]["recording"])
    lines = [
        f"{card['value']:>6} {card['name']}, {card['interval']} ({card['basis']})" for card in shown
    ]
    if brief:
        short = [f"{SHORT[card['name']]} {card['value']}, {card['interval']}" for card in shown]
        lines = ["; ".join(short[:2]), "; ".join(short[2:])]
    for kind, line in zip_longest([verdict["split"].replace("_", " ")], lines, fillvalue=""):
        log_result(f"{kind:<9}{line}")
    if unsaid := [limit for limit in verdict["cautions"] if limit not in verdict["sentence"]]:
        log_result(f"unsure   {unsaid[0]}")
    if folder is not None:
        log_result(f"report   {from_here(folder / 'report.html')}")
    if following:
        LOG.info(f"next     {following}")


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
    if audit.get("sentence"):
        sentences.append(str(audit["sentence"]))
    stop = metrics.get("settings", {}).get("stop", {})
    if split == rule.get("fitted_on"):
        sentences.append(
            f"The decision threshold was fitted on these recordings ({split}). Expect slightly "
            "worse results on new ones."
        )
    elif split == "val" and stop.get("name") != "fixed":
        sentences.append(
            "The weights were chosen on these recordings (val). Expect slightly worse results on "
            "new ones."
        )
    sentences += start_sentences(metrics.get("started_from")) + _separation(metrics)
    if blank := metrics.get("without_group"):
        sentences.append(
            f"{counted(len(blank), 'recording')} with a blank {columns} took no part: of which "
            f"{columns} they are is unknown."
        )
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
    """Sentences on what training shares with the judged recordings, as far as known."""
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
