"""The report of a training or an evaluation: report.html and the pages beside it."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

from leakdet.core.files import write_json, write_whole
from leakdet.core.messages import log_detail
from leakdet.detection.decision import LIMITS
from leakdet.evaluation.class_tables import OF_A_CLASS
from leakdet.evaluation.coverage import REASONS, SHARES, undecided_words
from leakdet.evaluation.groups import worst_sentence
from leakdet.evaluation.met import all_met, unfamiliar_sentence
from leakdet.evaluation.metrics import precision_at
from leakdet.evaluation.scored_recordings import ScoredRecordings, write_recordings
from leakdet.reporting.conclusion import MANY_ALARMS, cards, cautions, expectation, judge
from leakdet.reporting.figures import HEADINGS, STYLE, result_figures, svg, write_pngs
from leakdet.reporting.pages import (
    NBSP,
    counted,
    filled,
    flattened,
    number,
    number_range,
    percent,
    split_words,
)
from leakdet.reporting.recording_card import OUTCOMES, report_rows
from leakdet.reporting.training_figures import learning_curve, read_history
from leakdet.storage.model_card import missing_sounds


@dataclass(frozen=True)
class ReportInput:
    """Input of `write_report`.

    `recordings` maps a split or protocol to its scored recordings; `metrics` is the content of
    metrics.json, with a table under each of these names (docs/metrics.md). The last split is the
    judged one, the others are shown beside it. `audit`, `comparison`, `settings` and other entries
    of `metrics` are shown where they are given. `history` is the path of a run's history.csv.
    """

    title: str
    recordings: Mapping[str, ScoredRecordings]
    metrics: Mapping[str, Any]
    history: Path | None = None

    @property
    def judged(self) -> str:
        return list(self.recordings)[-1]

    @property
    def tables(self) -> Mapping[str, Any]:
        """The judged split's entry of metrics.json."""
        tables: Mapping[str, Any] = self.metrics[self.judged]
        return tables


FEW = 10  # recordings of a class


def class_page(table: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Sentence, rows and notes on the classes of a multiclass model; None of a binary one."""
    if table is None:
        return None
    return {
        "sentence": _sentence(table),
        "names": [entry["name"] for entry in table["classes"]],
        "rows": [_row(table, index) for index in range(len(table["classes"]))],
        "notes": _notes(table),
    }


def _sentence(table: Mapping[str, Any]) -> str:
    if not table["n"]:
        return "No recording has a label that is a class of the model."
    right = sum(table["confusion"][index][index] for index in range(len(table["classes"])))
    interval = table["intervals"]["macro_f1"]
    ends = f" (95{NBSP}% interval {number_range(interval)})" if interval else ""
    return (
        f"The most probable class is true of {right} of {counted(table['n'], 'recording')}; "
        f"macro F1 is {number(table['macro_f1'])}{ends}."
    )


def _row(table: Mapping[str, Any], index: int) -> dict[str, Any]:
    entry, counts = table["classes"][index], table["confusion"][index]
    shares, intervals = table["shares"][index], table["share_intervals"][index]
    cells = [
        {
            "count": count,
            "share": share,
            "interval": interval,
            "kind": "right" if column == index else "wrong" if count else "",
        }
        for column, (count, share, interval) in enumerate(
            zip(counts, shares, intervals, strict=True)
        )
    ]
    facts = {key: entry[key] for key in ("name", "leak", "n", "predicted")}
    return facts | {"cells": cells, "metrics": [_metric(entry, key) for key in OF_A_CLASS]}


def _metric(entry: Mapping[str, Any], key: str) -> str:
    if entry[key] is None:
        return f"n/a: {entry['undefined'].get(key, 'undefined')}"
    interval = entry["intervals"][key]
    return number(entry[key]) + (f" ({number_range(interval)})" if interval else "")


def _notes(table: Mapping[str, Any]) -> list[str]:
    notes = [note[0].upper() + note[1:]] if (note := table["intervals"]["note"]) else []
    few = [f"{row['name']} ({row['n']})" for row in table["classes"] if 0 < row["n"] < FEW]
    if few:
        notes.append(f"Few recordings of {', '.join(few)}: their numbers are uncertain")
    left_out = [f"{label} ({count})" for label, count in table["left_out"].items()]
    if left_out:
        notes.append(f"Not in the table, since no class of the model: {', '.join(left_out)}")
    return notes


# entries of metrics.json
KEPT_APART = ("met_in_training", "without_sound", "without_group", "unfamiliar")
MAX_IDS = 500


@dataclass(frozen=True)
class Apart:
    """Recordings of one reason: `ids` are listed, `more` are not."""

    heading: str
    sentence: str
    ids: Sequence[str]
    more: int


def kept_apart(metrics: Mapping[str, Any]) -> list[Apart]:
    """The recordings that the content of metrics.json keeps apart or says undecided, by reason."""
    return [
        Apart(heading, sentence, ids[:MAX_IDS], max(0, len(ids) - MAX_IDS))
        for heading, sentence, ids in _reasons(metrics)
    ]


def _reasons(metrics: Mapping[str, Any]) -> Iterator[tuple[str, str, Sequence[str]]]:
    met = metrics.get("met_in_training")
    if met and met["met"]:
        yield "Met in training", _met(met), met["ids"]
    silent = metrics.get("without_sound") or []
    if silent:
        sentence = (
            f"{counted(len(silent), 'recording')} without a window of sound: nothing to judge, as "
            "predict leaves such recordings undecided."
        )
        yield "Without sound", sentence, silent
    blank = metrics.get("without_group") or []
    if blank:
        columns = " and ".join(metrics["group_by"])
        sentence = f"{counted(len(blank), 'recording')} with a blank {columns} took no part."
        yield "Without a group", sentence, blank
    strange = metrics.get("unfamiliar")
    if strange and strange["undecided"]:
        limit = (
            f"Undecided is a familiarity above {LIMITS[strange['setting']]:g} "
            f"(decision.unfamiliar={strange['setting']}); the highest here is "
            f"{strange['max_familiarity']:.2f}."
        )
        yield "Unfamiliar", f"{unfamiliar_sentence(strange)} {limit}", strange["ids"]


def _met(met: Mapping[str, Any]) -> str:
    """The recordings that were met, their roles, and how the model does on them."""
    sentence = (
        f"{met['met']} of {counted(met['recordings'], 'recording')}: {met['train']} trained the "
        f"model, {met['val']} chose its weights or threshold. They are no evidence for it."
    )
    table = met["recording"]
    if table is None:
        return sentence
    return (
        f"{sentence} On these alone it found {table['tp']} of {counted(table['positives'], 'leak')}"
        f" and raised {counted(table['fp'], 'false alarm')} on "
        f"{counted(table['negatives'], 'recording')} without a leak."
    )


MEANINGS = {
    "f1": "F1 of leak: harmonic mean of recall and precision",
    "recall": "recall, TPR: share of leaks that are found",
    "precision": "precision: share of alarms that are leaks, at this share of leaks",
    "fpr": "FPR: share of places without a leak that raise an alarm",
    "specificity": "specificity: share of places without a leak that raise none",
    "accuracy": "accuracy: share of correct verdicts",
    "balanced_accuracy": "balanced accuracy: mean of recall and specificity",
    "auroc": "AUROC: probability that a leak scores above a place without one; 0.5 is guessing",
    "average_precision": "average precision: area under precision over recall",
    "tpr_at_fpr_0.1": "leaks found if 1 in 10 places without a leak may raise an alarm",
    "tpr_at_fpr_0.01": "leaks found if 1 in 100 places without a leak may raise an alarm",
    "tpr_at_fpr_0.001": "leaks found if 1 in 1,000 places without a leak may raise an alarm",
    "tpr_at_fpr_0.0001": "leaks found if 1 in 10,000 places without a leak may raise an alarm",
    "fpr_at_tpr_0.5": "FPR if half of the leaks must be found",
    "fpr_at_tpr_0.85": "FPR if 85 % of the leaks must be found",
    "fpr_at_tpr_0.95": "FPR if 95 % of the leaks must be found",
    "brier": "Brier score: mean squared error of the probability; 0 is perfect",
    "ece": "expected calibration error: mean gap between predicted and observed share of leaks",
    "smallest_resolvable_fpr": "smallest FPR that so few recordings can show, 1 / negatives",
}
COUNT_MEANINGS = {
    "n": "recordings or windows",
    "positives": "with a leak",
    "negatives": "without a leak",
    "predicted_positives": "alarms",
    "tp": "leaks found (true positives)",
    "fp": "false alarms (false positives)",
    "fn": "missed leaks (false negatives)",
    "tn": "true negatives",
}
FIELD_SHARES = (0.1, 0.02)  # of places that leak, besides that of the recordings


def interval_sentence(table: Mapping[str, Any]) -> str:
    """A sentence on what the intervals resample, and on those that are not the bootstrap's."""
    unit = table["intervals"]["unit"]
    what = "recordings" if unit == "recording" else f"whole groups ({unit})"
    parts = (table["intervals"]["note"] or "").split("; ")
    # what a reader must know stands among the limits
    notes = [part for part in parts if part and not part.startswith(("the intervals", "no int"))]
    return f"95{NBSP}% intervals resample {what}." + "".join(f" Of {note}." for note in notes)


def digs(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """Leaks found per 100 digs, at the share of leaks of these recordings and at rarer ones."""
    recall, fpr, intervals = table["recall"], table["fpr"], table["intervals"]
    if None in (recall, fpr, intervals["recall"], intervals["fpr"]):
        return []
    (low_recall, high_recall), (low_fpr, high_fpr) = intervals["recall"], intervals["fpr"]
    share_here = table["positives"] / table["n"]
    shares = {f"as among these recordings ({percent(share_here)})": share_here}
    shares |= {f"1 place in {1 / share:.0f}": share for share in FIELD_SHARES if share < share_here}
    rows = []
    for name, share in shares.items():
        precision = precision_at(recall, fpr, share)
        low, high = (
            precision_at(low_recall, high_fpr, share),
            precision_at(high_recall, low_fpr, share),
        )
        rows.append(
            {
                "share": name,
                "hits": "no alarms" if precision is None else f"{100 * precision:.0f}",
                "range": ""
                if low is None or high is None
                else f"{100 * low:.0f} to {100 * high:.0f}",
            }
        )
    return rows


def all_numbers(metrics: Mapping[str, Any], splits: Sequence[str]) -> dict[str, Any]:
    """Every metric of every split as a table of texts; the judged split comes first."""
    judged_first = list(reversed(splits))
    columns = [(name, unit) for unit in ("recording", "window") for name in judged_first]
    tables = [metrics[name][unit] for name, unit in columns]
    counts = [
        (key, meaning, [str(table[key]) for table in tables])
        for key, meaning in COUNT_MEANINGS.items()
    ]
    rates = [
        (key, meaning, [_cell(table, key) for table in tables]) for key, meaning in MEANINGS.items()
    ]
    notes = {name: metrics[name]["recording"]["intervals"]["note"] for name in judged_first}
    return {
        "notes": [f"{name}: {note}" for name, note in notes.items() if note],
        "columns": [f"{name}, {unit}s" for name, unit in columns],
        "rows": counts + rates,
    }


def _cell(table: Mapping[str, Any], key: str) -> str:
    value = table[key]
    if value is None:
        return f"n/a: {table['undefined'].get(key, 'undefined')}"
    interval = table["intervals"].get(key)
    return number(value) + (f" ({number_range(interval)})" if interval else "")


def audit_rows(audit: Mapping[str, Any], table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The detector among the baselines that need no network, by falling AUROC."""
    detector = {
        "name": "the detector",
        "explanation": "what this report is about",
        "auroc": table["auroc"],
        "interval": table["intervals"]["auroc"],
    }
    return sorted([detector, *audit["rows"]], key=lambda row: -(row["auroc"] or 0.0))


ENOUGH = 30  # recordings of a class


@dataclass(frozen=True)
class NextStep:
    """What to do next, with the command that does it; "": none does."""

    sentence: str
    command: str = ""


def next_steps(material: ReportInput, grade: str) -> list[NextStep]:
    """What makes sense after these results, the most useful first; `grade` is the verdict's."""
    metrics, table = material.metrics, material.tables["recording"]
    if metrics.get("synthetic"):
        return [NextStep("Train on recordings of real pipes.", "leakdet train RECORDINGS")]
    steps, store = [], metrics.get("store")
    few = min(table["positives"], table["negatives"]) < ENOUGH
    if few and "folds" not in metrics and store and "val" in material.recordings:
        whole = "These are few recordings. Hold out each part of the store in turn: all judge then."
        steps.append(NextStep(whole, shlex.join(["leakdet", "crossval", store])))
    elif few:
        steps.append(NextStep("Add recordings, best of sites that are not among these."))
    if wrong := table["fp"] + table["fn"]:
        what = f"{counted(wrong, 'recording')} on the wrong side of the threshold"
        steps.append(NextStep(f"Listen to {what}: a wrong label is mended in your table."))
    if store and missing_sounds({"training": metrics}):
        words = ["leakdet", "train", store, "data.negatives=FOLDER"]
        rain = "Train with sounds without a pipe, such as rain and engines: it may call them leaks."
        steps.append(NextStep(rain, shlex.join(words)))
    if (model := _model_of(material)) and grade in ("good", "weak"):
        predict = f"{shlex.join(['leakdet', 'predict', model])} RECORDINGS"
        if (table["fpr"] or 0.0) >= MANY_ALARMS:
            alarms = "Fewer alarms, and fewer leaks found: choose another threshold."
            steps.append(NextStep(alarms, f"{predict} --policy max_fpr=0.05"))
        look = "Score new recordings, and look at the most suspicious."
        steps.append(NextStep(look, f"{predict} --page suspects.html"))
    return steps


def _model_of(material: ReportInput) -> str:
    """The model file, which a training writes beside its history; "": there is none."""
    model = str(material.metrics.get("model") or "")
    return str(material.history.parent / model) if model and material.history else model


SIZE_IN = (4.6, 4.0)
LESS_OVERLAP = "The less the two overlap, the better."
READINGS = {
    "roc": "Each point is a threshold. The further to the upper left, the better.",
    "precision_recall": (
        "The share of digs that find a leak, as more leaks are found. The further to the upper "
        "right, the better."
    ),
    "leak_prob": f"A recording at or right of the threshold is called a leak. {LESS_OVERLAP}",
    "risk_coverage": (
        "Going left, more of the recordings nearest the threshold are left undecided, and fewer of "
        "the others should be wrong."
    ),
    "reliability": (
        f"Of recordings with a predicted leak probability of 80{NBSP}%, 80{NBSP}% should have a "
        f"leak. Bars are 95{NBSP}% intervals."
    ),
}
LEARNING = "Learning curves: train and val"


def page_figures(material: ReportInput) -> list[tuple[str, str, str]]:
    """(heading, how to read it, svg) of the figures that these recordings allow."""
    threshold = material.recordings[material.judged].one_threshold
    readings = dict(READINGS)
    if threshold is None:
        readings["leak_prob"] = f"Each fold has its own threshold. {LESS_OVERLAP}"
    figures = result_figures(material.tables, threshold, size_in=SIZE_IN)
    drawn = []
    for name, reading in readings.items():  # the confusion matrix is a table of the page
        if name in figures:
            heading = f"{HEADINGS[name]}: {split_words(material.judged)}"
            drawn.append((heading, reading, svg(figures[name], heading)))
    if material.history is not None and material.history.is_file():
        history = read_history(material.history)
        with mpl.rc_context(STYLE):
            curves = learning_curve(history, material.metrics.get("best_epoch"), size_in=SIZE_IN)
        reading = "Validation loss that rises while training loss falls means overfitting."
        if "folds" in material.metrics and "val" not in material.recordings:
            reading = "The validation recordings trained too, so val shows no overfitting here."
        drawn.append((LEARNING, reading, svg(curves, LEARNING)))
    return drawn


# Entries of metrics.json with a section of their own.
_OWN_SECTIONS = (
    "splits", "decision_rule", "settings", "audit", "comparison", "learn", "folds",
)  # fmt: skip
_NOT_PROVENANCE = (*_OWN_SECTIONS, *KEPT_APART)
NO_EVIDENCE = "met in training (no evidence)"


def write_report(path: Path, material: ReportInput) -> Path:
    """Write the report atomically and return `path`.

    The page is bounded for any number of recordings: 1000 rows, 24 of them with picture and up to 6
    MB of sound in all, 300 points per curve, 50 values per group column. It has about 2 MB as a
    rule, 10 at most.
    """
    # File names may hold bytes that are no UTF-8.
    write_whole(path, render(material), errors="backslashreplace")
    return path


def write_results(folder: Path, material: ReportInput) -> None:
    """Write recordings.csv, metrics.json, figures and report.html."""
    folder.mkdir(parents=True, exist_ok=True)
    write_recordings(folder / "recordings.csv", material.recordings)
    write_json(folder / "metrics.json", material.metrics)
    write_report(folder / "report.html", material)
    figures = result_figures(
        material.tables,
        material.recordings[material.judged].one_threshold,
        f"{material.tables['recording']['n']} {split_words(material.judged)}"
        + (f", {NO_EVIDENCE}" if all_met(material.metrics.get("met_in_training")) else ""),
    )
    write_pngs(figures, folder / "figures")
    log_detail(f"metrics  {folder / 'metrics.json'}")
    log_detail(f"figures  {folder / 'figures'}")


def render(material: ReportInput) -> str:
    """The page as text; what users name (files, labels, groups) is escaped."""
    return filled("report.html.j2", _context(material))


def _context(material: ReportInput) -> dict[str, Any]:
    metrics, split = material.metrics, material.judged
    table, groups = material.tables["recording"], material.tables["groups"]
    rows = report_rows(material.recordings)
    total = sum(len(scored) for scored in material.recordings.values())
    audit = metrics.get("audit")
    hidden = {*metrics["splits"], *_NOT_PROVENANCE}
    coverage = material.tables["coverage"]
    verdict = judge(table, coverage, metrics)
    reasons = {row.reason for row in rows}
    return {
        "title": material.title,
        "judged_on": split_words(split),
        "no_evidence": NO_EVIDENCE if all_met(metrics.get("met_in_training")) else "",
        "splits": list(material.recordings)[::-1],
        "verdict": verdict,
        "next_steps": next_steps(material, verdict.grade),
        "expectation": expectation(coverage) if verdict.promises else None,
        "cautions": cautions(split, table, metrics),
        "table": table,
        "folds": metrics.get("folds"),
        "cards": cards(table),
        "coverage_cards": cards(coverage, SHARES) if coverage["undecided"] else [],
        "coverage": coverage,
        "undecided": undecided_words(coverage["undecided"]),
        "interval_sentence": interval_sentence(table),
        "apart": kept_apart(metrics),
        "classes": class_page(material.tables.get("classes")),
        "digs": digs(table),
        "figures": page_figures(material),
        "groups": groups["columns"],
        "groups_left_out": groups["left_out"],
        "group_sentence": worst_sentence(groups),
        "audit": audit_rows(audit, table) if audit else None,
        "audit_findings": audit["findings"] if audit else [],
        "comparison": metrics.get("comparison"),
        "learnt": metrics.get("learn"),
        "rows": rows,
        "rows_left_out": total - len(rows),
        "outcomes": OUTCOMES,
        "reasons": {reason: text for reason, text in REASONS.items() if reason in reasons},
        "with_media": sum(row.has_media for row in rows),
        "with_sound": any(row.card.sound for row in rows),
        "numbers": all_numbers(metrics, list(material.recordings)),
        "rule": flattened(metrics["decision_rule"] or {}),
        "settings": flattened(metrics.get("settings") or {}),
        "provenance": flattened({key: v for key, v in metrics.items() if key not in hidden}),
    }
