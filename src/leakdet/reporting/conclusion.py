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
from leakdet.evaluation.coverage import SHARES, undecided_words
from leakdet.evaluation.intervals import wilson
from leakdet.evaluation.met import all_met, met_sentences, start_sentences
from leakdet.reporting.pages import counted, number, number_range, percent, percent_range

WEAK_AUROC = 0.75
MANY_ALARMS = 0.2  # of the recordings without a leak
FEW_FOUND = 0.5  # of the leaks
FEW_DECIDED = 0.5  # of the recordings with a leak, or of those without
FEW = 30  # recordings of a class; below, one recording moves a rate by more than three points


@dataclass(frozen=True)
class Judgement:
    """`grade` (good, weak, bad, unknown) colours the page, `label` says the same in words."""

    grade: str
    label: str
    sentence: str
    advice: str
    unproven: bool = False  # the numbers may not be about leaks at new places

    @property
    def promises(self) -> bool:
        """True where such numbers may be expected at new places."""
        return self.grade != "unknown" and not self.unproven


def judge(
    table: Mapping[str, Any], coverage: Mapping[str, Any], metrics: Mapping[str, Any]
) -> Judgement:
    """Judge the recordings of one split by their metrics and by what predict decides of them.

    `metrics` is the content of metrics.json. Good: the 95 % interval of the AUROC lies above 0.75;
    of the decided recordings that of the false alarm rate below 20 % and that of the recall above
    50 %. Weak: one of these does not, most leaks or most others are undecided, a trivial trait does
    nearly as well, or whether the model has met the recordings is unknown. Bad: the AUROC may be
    that of guessing. Unknown: a class is missing, the model has met every recording, or its labels
    were shuffled. Where the recordings are synthetic, the first sentence says so.
    """
    judged = _judgement(table, coverage, metrics)
    if not metrics.get("synthetic"):
        return judged
    return replace(
        judged,
        sentence=f"These recordings are synthetic. {judged.sentence}",
        advice="This says nothing about real pipes: train on recordings of your own.",
        unproven=True,
    )


def _judgement(
    table: Mapping[str, Any], coverage: Mapping[str, Any], metrics: Mapping[str, Any]
) -> Judgement:
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
    leaks, alarms = _counts(coverage)
    unjudged = partial(Judgement, "unknown", "Cannot be judged")
    unproven = partial(Judgement, "weak", "Unproven", unproven=True)
    if not coverage["positives"] or not coverage["negatives"]:
        missing, fact = ("no leak", leaks) if coverage["positives"] else ("a leak", alarms)
        both = "Evaluate it on recordings with and without leaks."
        return unjudged(f"No recording has {missing}. {fact}", both)
    facts = f"{leaks} {alarms}"
    interval = table["intervals"]["auroc"]
    if interval is None:
        few = f"Too few recordings for an interval. {facts}"
        return unjudged(few, "Evaluate it on more recordings.")
    if interval[0] <= 0.5:
        (luck,) = luck_findings({"auroc": table["auroc"], "interval": interval})
        return Judgement("bad", "Do not rely on it", f"{luck} {facts}", "Do not plan digs by it.")
    if (metrics.get("audit") or {}).get("sentence"):
        return unproven(
            f"It may have learnt a shortcut instead of leaks. {facts}",
            "Do not plan digs by it before it is tested on recordings without the shortcut.",
        )
    if "met_in_training" in metrics and met is None:
        return unproven(
            f"Whether the model has met these recordings in training is unknown. {facts}",
            "Train or build the store anew: the files then keep what tells.",
        )
    if on_val and _chosen_by_val(metrics):
        return unproven(
            f"The same recordings (val) chose the weights or the threshold. {facts}",
            "Evaluate it on recordings that took no part in its training.",
        )
    label, shortcoming = _shortcoming(table, coverage)
    if shortcoming:
        advice = "Dig only where other evidence agrees."
        return Judgement("weak", label, f"{shortcoming} {facts}", advice)
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


def _counts(coverage: Mapping[str, Any]) -> tuple[str, str]:
    """A sentence on the leaks and one on the other recordings, as predict decides them."""
    of_leaks = coverage["undecided_leaks"]
    of_others = {
        reason: left
        for reason, count in coverage["undecided"].items()
        if (left := count - of_leaks.get(reason, 0))
    }
    leaks = [f"{coverage['tp']} found", f"{coverage['fn']} missed", *undecided_words(of_leaks)]
    others = [counted(coverage["fp"], "false alarm"), *undecided_words(of_others)]
    return (
        f"Of {counted(coverage['positives'], 'leak')} {', '.join(leaks)}.",
        f"On {counted(coverage['negatives'], 'recording')} without a leak {', '.join(others)}.",
    )


def _shortcoming(table: Mapping[str, Any], coverage: Mapping[str, Any]) -> tuple[str, str]:
    """Label and sentence on what is not good enough, or not shown to be; empty where all is."""
    leaks, others = coverage["tp"] + coverage["fn"], coverage["fp"] + coverage["tn"]
    for decided, recordings, what in (
        (leaks, coverage["positives"], "leaks"),
        (others, coverage["negatives"], "recordings without a leak"),
    ):
        if decided <= FEW_DECIDED * recordings:
            return "Leaves much undecided", f"It decides half of the {what} or fewer."
    fpr = _widest(coverage["intervals"]["fpr"], coverage["fp"], others)
    recall = _widest(coverage["intervals"]["recall"], coverage["tp"], leaks)
    if coverage["fpr"] >= MANY_ALARMS:
        return "Too many false alarms", "A dig by its word would often find no leak."
    if coverage["recall"] <= FEW_FOUND:
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
    judged = judge(table, metrics[split]["coverage"], metrics)
    reasons = cautions(split, table, metrics)
    return {
        "split": split,
        "grade": judged.grade,
        "label": judged.label,
        "sentence": judged.sentence,
        "cautions": reasons,
    }


def cards(table: Mapping[str, Any], keys: Sequence[str] = ()) -> list[dict[str, str]]:
    """Key numbers of one of a split's tables: name, value, interval, and the counts behind it.

    `keys` picks from them; empty: all that the table has.
    """
    tp, fp, fn, n = (table[key] for key in ("tp", "fp", "fn", "n"))
    decided = table.get("decided", 0)
    basis = {
        "share_decided": ("of the recordings are decided", f"{decided} of {n}"),
        "wrong_of_decided": ("of the decided ones are wrong", f"{fp + fn} of {decided}"),
        "wrong_of_all": ("of all recordings are decided wrongly", f"{fp + fn} of {n}"),
        "recall": ("of the leaks found (recall)", f"{tp} of {table['positives']}"),
        "fpr": ("false alarm rate (FPR)", f"{fp} of {table['negatives']}"),
        "precision": ("of the alarms are leaks (precision)", f"{tp} of {tp + fp}"),
        "f1": ("F1 of leak", "1 is perfect"),
        "auroc": ("AUROC", "1 is perfect, 0.5 is guessing"),
    }
    return [_card(table, key, *basis[key]) for key in keys or basis if key in table]


def _card(table: Mapping[str, Any], key: str, name: str, basis: str) -> dict[str, str]:
    value, interval = table[key], table["intervals"][key]
    shown, ends = (number, number_range) if key in ("f1", "auroc") else (percent, percent_range)
    undefined = str(table["undefined"].get(key, "undefined"))
    return {
        "name": name,
        "value": shown(value),
        "interval": ends(interval) if value is not None else undefined,
        "basis": basis,
    }


SHORT = {  # names of the cards in a line of several
    "of the recordings are decided": "decided",
    "of the decided ones are wrong": "wrong of these",
    "of all recordings are decided wrongly": "wrong of all",
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
    shown = _five_numbers(metrics[verdict["split"]])
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


def _five_numbers(tables: Mapping[str, Any]) -> list[dict[str, str]]:
    """What is decided and how much wrongly; of a rule that decides all, how it errs."""
    if not tables["coverage"]["undecided"]:
        return cards(tables["recording"])
    f1, auroc = cards(tables["recording"], ("f1", "auroc"))
    f1["basis"] += "; the undecided count by their side of the threshold"
    return [*cards(tables["coverage"], SHARES), f1, auroc]


def expectation(coverage: Mapping[str, Any]) -> str | None:
    """The intervals of what is decided, and of how much of it wrongly."""
    decided, wrong = (coverage["intervals"][key] for key in SHARES[:2])
    if decided is None or wrong is None:
        return None
    return (
        f"Of recordings like these, expect it to decide {percent_range(decided)}, and "
        f"{percent_range(wrong)} of those wrongly (95\u00a0% intervals). A place that sounds "
        "different as a whole may be decided wrongly and without doubt."
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
