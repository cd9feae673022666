"""From rows of predict over many nights to the work list: its page and the tables beside it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import leakdet
from leakdet._messages import LOG, log_result
from leakdet.detection.kept_scores import KEPT, TEST, VAL, ValidationScores
from leakdet.errors import InputError, counted, first_few
from leakdet.reporting.review_page import ReviewPage
from leakdet.reporting.site_map import coordinates
from leakdet.reporting.worklist_page import WorklistPage, write_worklist_page
from leakdet.reporting.worklist_tables import write_geojson, write_worklist_csv
from leakdet.sites.dig_worth import Evidence
from leakdet.sites.make_worklist import Worklist, make_worklist
from leakdet.sites.row_columns import read_blocks
from leakdet.sites.rules import WorklistRules
from leakdet.sites.worklist_row import STATES, WorklistRow
from leakdet.storage.csv_file import write_csv
from leakdet.storage.disk_space import megabytes
from leakdet.storage.model_card import open_safetensors
from leakdet.worklist_files import WorklistFiles
from leakdet.worklist_review import (
    choose_recordings,
    confirm_rows,
    found_file,
    gone_sentence,
    review_page,
)
from leakdet.worklist_sources import Sources

if TYPE_CHECKING:  # it loads torch
    from leakdet.scoring.audio_detector import Detector


def evidence_of(detector: "Detector | None", model: Path | None = None) -> Evidence | None:
    """The scores that a model keeps of recordings whose truth is known.

    Without a detector they are read from a `.safetensors` file alone, which needs no torch.
    """
    if detector is None:
        return evidence_in(model) if model and model.suffix == ".safetensors" else None
    return Evidence.kept(detector.mel_detector.tested, detector.mel_detector.validation)


def evidence_in(model: Path) -> Evidence | None:
    """As `evidence_of`, from a `.safetensors` file.

    Raises:
        InputError: it is damaged.
    """
    with open_safetensors(model, "numpy") as file:
        kept = {name: file.get_tensor(name) for name in {*KEPT} & {*file.keys()}}
        return Evidence.kept(*(ValidationScores.from_file(kept, split) for split in (TEST, VAL)))


def write_worklist(
    sources: Sources,
    files: WorklistFiles,
    rules: WorklistRules,
    top: int,
    detector: "Detector | None",
) -> None:
    """Rank the sites and write the files.

    Raises:
        InputError: no row names its site and time, or points are asked for and none has a place.
    """
    LOG.info(f"rows     reading {counted(len(sources.places), 'place')}")
    worklist = make_worklist(
        read_blocks(sources.parts()), rules, evidence_of(detector, sources.model)
    )
    rows = worklist.rows
    cautions = [*sources.sentences(), *worklist.notes, *_old_sounds(rows)]
    for caution in cautions:
        LOG.info(f"note     {caution}")
    states = Counter(row.state for row in rows)
    told = ", ".join(f"{states[state]} {state}" for state in STATES if states[state])
    over = counted(len(worklist.nights), "night")
    facts = {"states": dict(states)}
    LOG.info(f"sites    {counted(len(rows), 'site')} over {over}: {told}", extra={"facts": facts})
    beside = _write_tables(files, rows)
    if files.page and files.confirm:
        review = _write_review(sources, files.confirm, rows, top, detector)
        page = WorklistPage(
            f"Work list: {counted(len(rows), 'site')} over {over}",
            f"model {sources.model_hash or 'unknown'}",
            [_last_night(worklist, sources.threshold)],
            cautions,
            rows,
            worklist.nights,
            sources.threshold,
            _method(sources, rules, detector),
            beside,
            review,
            {row.values["site"]: number for number, row in enumerate(review.rows)},
        )
        write_worklist_page(files.page, page)
        size = megabytes(files.page.stat().st_size)
        log_result(f"page     {files.page}: the sites, to find and hear and tick ({size})")


def _write_tables(files: WorklistFiles, rows: Sequence[WorklistRow]) -> list[str]:
    """Write the table and the points; the result has the names of the files."""
    written = []
    if files.table:
        write_worklist_csv(files.table, rows)
        log_result(f"table    {files.table}: a row for each site")
        written.append(files.table.name)
    if files.points and any(coordinates(row) for row in rows):
        count = write_geojson(files.points, rows)
        log_result(f"points   {files.points}: {counted(count, 'site')} for a map")
        written.append(files.points.name)
    elif files.points and files.page:
        files.points.unlink(missing_ok=True)  # of an earlier list
        LOG.info("note     no site has coordinates (columns lat and lon): no map, no GeoJSON")
    elif files.points:
        raise InputError(
            f"--out {files.points}: no site has coordinates; predict takes them from the columns "
            "lat and lon of a table of recordings."
        )
    return written


def _write_review(
    sources: Sources,
    table: Path,
    rows: Sequence[WorklistRow],
    top: int,
    detector: "Detector | None",
) -> ReviewPage:
    """Write the table to confirm; the result has its recordings with pictures and sounds."""
    shown = choose_recordings(rows, top)
    found = [found_file(one.recording.path, sources.places) for one in shown]
    if detector and (sentence := gone_sentence(found)):
        LOG.warning(sentence)
    values = confirm_rows(shown, found, sources.model_hash)
    page = review_page(shown, values, found, detector, sources.threshold or 0.5, table.name)
    if shown:
        write_csv(table, values, page.columns)
        log_result(f"confirm  {table}: {counted(len(shown), 'recording')}, label to be filled in")
    return page


def _last_night(worklist: Worklist, threshold: float | None) -> str:
    """How many sites were heard in the last night, and how many scored as a leak does."""
    scores = [row.trend[-1] for row in worklist.rows]
    heard = [score for score in scores if score is not None]
    text = f"Night of {worklist.nights[-1]}: {len(heard)} of {counted(len(scores), 'site')} judged"
    if threshold is None:
        return f"{text}."
    above = sum(score >= threshold for score in heard)
    return f"{text}, {above} of them at or above the threshold {threshold:.2f}."


def _old_sounds(rows: Sequence[WorklistRow]) -> list[str]:
    """Where sites that always sound so are ranked, since an old leak may be among them."""
    ranks = [rank for rank, row in enumerate(rows, 1) if row.state == "persistent"]
    if not ranks:
        return []
    many = counted(len(ranks), "site")
    return [
        f"{many} with alarms night after night, the first at rank {ranks[0]} of {len(rows)}: a "
        "pump, or an old leak. Choose the state persistent to see them all."
    ]


def _method(sources: Sources, rules: WorklistRules, detector: "Detector | None") -> dict[str, str]:
    """How the list came about: its rows, its model, and each parameter of the rule."""
    verdict = detector.mel_detector.card.get("verdict") if detector else None
    told = f"{sources.model_hash}: {verdict['label']}. {verdict['sentence']}" if verdict else ""
    method = {
        "rows": first_few([str(place) for place in sources.places]),
        "model": told or sources.model_hash or "unknown",
        "made by": f"leakdet {leakdet.__version__}",
    }
    for parameter in fields(rules):
        value = getattr(rules, parameter.name)
        shown = "not given" if value is None else f"{value:g}"
        method[f"{parameter.name} = {shown}"] = parameter.metadata["meaning"]
    return method
