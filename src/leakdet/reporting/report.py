"""report.html: one file that says how good a detector is, shows why, and plays recordings."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from leakdet._messages import LOG
from leakdet.evaluation.groups import worst_sentence
from leakdet.evaluation.metrics_json import write_metrics
from leakdet.evaluation.scored_recordings import write_recordings
from leakdet.reporting import figures
from leakdet.reporting.conclusion import cautions, expectation, verdict
from leakdet.reporting.number_tables import all_numbers, audit_rows, cards, digs
from leakdet.reporting.recording_rows import OUTCOMES, report_rows
from leakdet.reporting.report_input import ReportInput
from leakdet.reporting.training_figures import read_history
from leakdet.reporting.wording import (
    counted,
    flattened,
    number,
    number_range,
    percent,
    percent_range,
)
from leakdet.storage.atomic import whole_file
from leakdet.storage.store import SPLITS

# Entries of metrics.json with a section of their own.
_NOT_PROVENANCE = ("splits", "decision_rule", "settings", "audit", "comparison", "met_in_training")


def write_report(path: Path, material: ReportInput) -> Path:
    """Write the report atomically and return `path`.

    The page is bounded for any number of recordings: 1000 rows, 24 of them with picture and up to 6
    MB of sound in all, 300 points per curve, 50 values per group column. It has about 2 MB as a
    rule, 10 at most.
    """
    html = render(material)
    with whole_file(path) as partial:
        # File names may hold bytes that are no UTF-8.
        partial.write_text(html, encoding="utf-8", errors="backslashreplace")
    return path


def write_results(folder: Path, material: ReportInput) -> None:
    """Write recordings.csv, metrics.json and report.html of a run, and log where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    write_recordings(folder / "recordings.csv", material.recordings)
    write_metrics(folder / "metrics.json", material.metrics)
    report = write_report(folder / "report.html", material)
    judged = verdict(material.tables["recording"], material.metrics)
    LOG.info(f"metrics  {folder / 'metrics.json'}")
    LOG.info(f"report   {report}")
    LOG.info(f"verdict  {judged.label}. {judged.sentence}")


def render(material: ReportInput) -> str:
    """The page as text; what users name (files, labels, groups) is escaped."""
    page = Path(__file__).parent / "page"
    environment = Environment(
        loader=FileSystemLoader(page),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["include_raw"] = lambda name: (page / name).read_text(encoding="utf-8")
    texts = (counted, number, number_range, percent, percent_range)
    environment.filters |= {function.__name__: function for function in texts}
    return environment.get_template("report.html.j2").render(_context(material))


def _context(material: ReportInput) -> dict[str, Any]:
    metrics, split = material.metrics, material.judged
    table, groups = material.tables["recording"], material.tables["groups"]
    rows = report_rows(material.recordings)
    total = sum(len(scored) for scored in material.recordings.values())
    audit = metrics.get("audit")
    hidden = {*metrics["splits"], *_NOT_PROVENANCE}
    return {
        "title": material.title,
        "judged_on": f"the {split} recordings"
        if split in SPLITS
        else "recordings that were held out of training",
        "splits": list(material.recordings)[::-1],
        "verdict": verdict(table, metrics),
        "expectation": None if metrics.get("synthetic") else expectation(table),
        "cautions": cautions(split, table, metrics),
        "table": table,
        "cards": cards(table),
        "digs": digs(table),
        "figures": _figures(material),
        "groups": groups["columns"],
        "groups_left_out": groups["left_out"],
        "group_sentence": worst_sentence(groups),
        "audit": audit_rows(audit, table) if audit else None,
        "audit_findings": audit["findings"] if audit else [],
        "comparison": metrics.get("comparison"),
        "rows": rows,
        "rows_left_out": total - len(rows),
        "outcomes": OUTCOMES,
        "with_media": sum(row.media is not None for row in rows),
        "numbers": all_numbers(metrics, list(material.recordings)),
        "rule": flattened(metrics["decision_rule"] or {}),
        "settings": flattened(metrics.get("settings") or {}),
        "provenance": flattened({key: v for key, v in metrics.items() if key not in hidden}),
    }


def _figures(material: ReportInput) -> list[tuple[str, str, str]]:
    """(heading, how to read it, svg) of the figures that these recordings allow."""
    curves, table = material.tables["curves"], material.tables["recording"]
    threshold = material.recordings[material.judged].one_threshold
    one = threshold is not None
    drawn = []
    if curves["roc"] is not None:
        drawn.append(
            (
                "Leaks found against false alarms (ROC)",
                "Each point is a threshold. The further to the upper left, the better.",
                figures.roc_figure(curves["roc"], table, one),
            )
        )
        drawn.append(
            (
                "Precision against leaks found",
                "The share of digs that find a leak, as more leaks are found. The further to the "
                "upper right, the better.",
                figures.precision_recall_figure(curves["precision_recall"], table, one),
            )
        )
    threshold_note = (
        "A recording at or right of the threshold is called a leak."
        if one
        else "Each fold has its own threshold."
    )
    drawn.append(
        (
            "Scores",
            f"{threshold_note} The less the two overlap, the better.",
            figures.histogram_figure(curves["histogram"], threshold),
        )
    )
    if curves["reliability"]:
        drawn.append(
            (
                "Calibration",
                "Of recordings with a predicted leak probability of 80\u00a0%, 80\u00a0% should "
                "have a leak. Bars are 95\u00a0% intervals.",
                figures.reliability_figure(curves["reliability"]),
            )
        )
    if material.history is not None and material.history.is_file():
        drawn.append(
            (
                "Learning curves",
                "Validation loss that rises while training loss falls means overfitting.",
                figures.learning_figure(
                    read_history(material.history), material.metrics.get("best_epoch")
                ),
            )
        )
    return drawn
