"""report.html: one file that says how good a detector is, shows why, and lets the reader listen. No network, any browser."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from leakdet._messages import LOG
from leakdet.evaluation.groups import worst_sentence
from leakdet.evaluation.metrics_json import write_metrics
from leakdet.evaluation.scored_recordings import write_recordings
from leakdet.reporting import figures
from leakdet.reporting.conclusion import cautions, expectation, verdict
from leakdet.reporting.number_tables import all_numbers, audit_cells, cards, digs, group_cells
from leakdet.reporting.recording_rows import MOST_ROWS, OUTCOMES, report_rows
from leakdet.reporting.report_input import ReportInput
from leakdet.reporting.wording import counted, flattened
from leakdet.storage.atomic import whole_file
from leakdet.storage.store import SPLITS

# Shown in sections of their own, or with the settings.
_NOT_PROVENANCE = ("splits", "decision_rule", "settings", "audit", "comparison")


def write_report(path: Path, material: ReportInput) -> Path:
    """Write the report beside its place and rename, so that a file of this name is whole; returns `path`.

    The page is bounded whatever the number of recordings: 1000 rows, 24 of them with picture and up to 6 MB of sound in
    all, 300 points a curve, 50 values a group column: about 2 MB as a rule, 10 at most.
    """
    html = render(material)
    with whole_file(path) as beside:
        # Names of files may hold bytes that are no text.
        beside.write_text(html, encoding="utf-8", errors="backslashreplace")
    return path


def write_results(folder: Path, material: ReportInput) -> None:
    """recordings.csv, metrics.json and report.html of a run into its folder, and where they are on the screen."""
    folder.mkdir(parents=True, exist_ok=True)
    write_recordings(folder / "recordings.csv", material.recordings)
    write_metrics(folder / "metrics.json", material.metrics)
    report = write_report(folder / "report.html", material)
    said = verdict(material.tables["recording"], material.metrics.get("audit"))
    LOG.info(
        f"metrics  {folder / 'metrics.json'}\nreport   {report}\nverdict  {said.label}. {said.sentence}"
    )


def render(material: ReportInput) -> str:
    """The page as text; what users name (files, labels, groups) is escaped."""
    here = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(here / "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["include_raw"] = lambda name: (here / "page" / name).read_text(
        encoding="utf-8"
    )
    return environment.get_template("report.html.j2").render(_context(material))


def _context(material: ReportInput) -> dict[str, Any]:
    metrics, split = material.metrics, material.judged
    table, groups = material.tables["recording"], material.tables["groups"]
    rows = report_rows(material.recordings)
    total = sum(len(scored) for scored in material.recordings.values())
    audit = metrics.get("audit")
    return {
        "title": material.title,
        "judged_on": f"the {split} recordings"
        if split in SPLITS
        else "recordings that were held out of training",
        "splits": list(material.recordings)[::-1],
        "verdict": verdict(table, audit),
        "expectation": expectation(table),
        "cautions": cautions(split, table, metrics),
        "table": table,
        "counted": counted,
        "cards": cards(table),
        "digs": digs(table),
        "figures": _figures(material),
        "groups": {
            column: [group_cells(row) for row in found]
            for column, found in groups["columns"].items()
        },
        "groups_left_out": groups["left_out"],
        "group_sentence": worst_sentence(groups),
        "audit": audit_cells(audit, table) if audit else None,
        "audit_findings": _findings(audit or {}),
        "comparison": metrics.get("comparison"),
        "rows": rows,
        "rows_left_out": total - len(rows),
        "most_rows": MOST_ROWS,
        "outcomes": OUTCOMES,
        "with_look": sum(row.look is not None for row in rows),
        "numbers": all_numbers(metrics, list(material.recordings)),
        "rule": flattened(metrics.get("decision_rule") or {}),
        "settings": flattened(metrics.get("settings") or {}),
        "provenance": flattened(_provenance(metrics)),
    }


def _provenance(metrics: Mapping[str, Any]) -> dict[str, Any]:
    hidden = {*metrics["splits"], *_NOT_PROVENANCE}
    return {key: value for key, value in metrics.items() if key not in hidden}


def _findings(audit: Mapping[str, Any]) -> list[str]:
    sentence = audit.get("sentence")
    return [str(found) for found in audit.get("findings") or ([sentence] if sentence else [])]


def _figures(material: ReportInput) -> list[tuple[str, str, str]]:
    """(heading, how to read it, svg) of the figures that these recordings allow."""
    curves, table = material.tables["curves"], material.tables["recording"]
    threshold = material.recordings[material.judged].one_threshold
    one = threshold is not None
    drawn = (
        "A recording at or right of the threshold is called a leak. "
        if one
        else "Each fold has its own threshold. "
    )
    made = []
    if curves["roc"] is not None:
        made.append(
            (
                "Leaks found against false alarms (ROC)",
                "Each point is a threshold. The further to the upper left, the better.",
                figures.roc_figure(curves["roc"], table, one),
            )
        )
        made.append(
            (
                "Digs that find a leak, against leaks found",
                "How many digs pay off when more leaks are to be found. The further to the upper right, the better.",
                figures.precision_recall_figure(curves["precision_recall"], table, one),
            )
        )
    made.append(
        (
            "Scores",
            f"{drawn}The less the two overlap, the better.",
            figures.histogram_figure(curves["histogram"], threshold),
        )
    )
    if curves["reliability"]:
        made.append(
            (
                "Does 80 % mean 80 %?",
                "On the dashed line, probabilities mean what they say. Bars are 95 % intervals.",
                figures.reliability_figure(curves["reliability"]),
            )
        )
    learning = figures.learning_curves(material.learning_curves)
    if learning:
        best = material.metrics.get("best_epoch")
        made.append(
            (
                "Learning curves",
                "Validation loss that rises while train loss falls means learning by heart.",
                figures.learning_figure(learning, None if best is None else best + 1),
            )
        )
    return made
