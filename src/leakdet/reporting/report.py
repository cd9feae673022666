"""report.html: one file that says how good a detector is, shows why, and plays recordings."""

from pathlib import Path
from typing import Any

from leakdet._messages import log_result
from leakdet.evaluation.groups import worst_sentence
from leakdet.evaluation.met_in_training import all_met
from leakdet.evaluation.scored_recordings import write_recordings
from leakdet.reporting.class_page import class_page
from leakdet.reporting.conclusion import cautions, expectation, judge
from leakdet.reporting.figure_style import write_pngs
from leakdet.reporting.kept_apart import KEPT_APART, kept_apart
from leakdet.reporting.number_tables import all_numbers, audit_rows, cards, digs, interval_sentence
from leakdet.reporting.page_figures import page_figures
from leakdet.reporting.page_template import filled
from leakdet.reporting.recording_rows import DOUBT, OUTCOMES, report_rows
from leakdet.reporting.report_input import ReportInput
from leakdet.reporting.result_figures import result_figures
from leakdet.reporting.wording import flattened, split_words
from leakdet.storage.atomic import write_whole
from leakdet.storage.json_file import write_json

# Entries of metrics.json with a section of their own.
_OWN_SECTIONS = ("splits", "decision_rule", "settings", "audit", "comparison", "learn")
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
    """Write recordings.csv, metrics.json, figures and report.html, and log where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    write_recordings(folder / "recordings.csv", material.recordings)
    write_json(folder / "metrics.json", material.metrics)
    report = write_report(folder / "report.html", material)
    figures = result_figures(
        material.tables,
        material.recordings[material.judged].one_threshold,
        f"{material.tables['recording']['n']} {split_words(material.judged)}"
        + (f", {NO_EVIDENCE}" if all_met(material.metrics.get("met_in_training")) else ""),
    )
    write_pngs(figures, folder / "figures")
    judged = judge(material.tables["recording"], material.metrics)
    log_result(f"metrics  {folder / 'metrics.json'}")
    log_result(f"report   {report}")
    log_result(f"figures  {folder / 'figures'}")
    log_result(f"verdict  {judged.label}. {judged.sentence}")


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
    verdict = judge(table, metrics)
    return {
        "title": material.title,
        "judged_on": split_words(split),
        "no_evidence": NO_EVIDENCE if all_met(metrics.get("met_in_training")) else "",
        "splits": list(material.recordings)[::-1],
        "verdict": verdict,
        "expectation": expectation(table) if verdict.promises else None,
        "cautions": cautions(split, table, metrics),
        "table": table,
        "cards": cards(table),
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
        "doubt": f"{DOUBT:g}",
        "with_media": sum(row.media is not None for row in rows),
        "with_sound": any(row.media is not None and row.media.audio for row in rows),
        "numbers": all_numbers(metrics, list(material.recordings)),
        "rule": flattened(metrics["decision_rule"] or {}),
        "settings": flattened(metrics.get("settings") or {}),
        "provenance": flattened({key: v for key, v in metrics.items() if key not in hidden}),
    }
