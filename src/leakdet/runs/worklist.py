"""From rows of predict over many nights to the work list: its page and the tables beside it."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import leakdet
from leakdet.core.errors import InputError, counted, first_few
from leakdet.core.files import megabytes, read_json
from leakdet.core.locations import Location, excerpt, is_url, parse_location
from leakdet.core.messages import LOG, log_result
from leakdet.core.progress import ProgressCounter
from leakdet.detection.stored_scores import KEPT, TEST, VAL, ValidationScores
from leakdet.reporting.recording_card import Cards
from leakdet.reporting.review_page import ReviewPage, ReviewRow, check_unlabelled
from leakdet.reporting.worklist_page import (
    BEGINNING,
    CREATED_BY,
    GENERATOR,
    WorklistPage,
    coordinates,
    is_worklist,
    list_parts,
    model_verdict,
    write_geojson,
    write_worklist_page,
    write_worklist_table,
)
from leakdet.scoring.parts import FACTS
from leakdet.scoring.prediction import sidecar_path, verdict_text
from leakdet.sites.rows import read_blocks
from leakdet.sites.rules import WorklistRules
from leakdet.sites.states import STATES, Recording, WorklistRow
from leakdet.sites.worklist import Worklist, make_worklist
from leakdet.sites.worth import Evidence
from leakdet.storage.model_card import (
    card_in,
    file_hash,
    open_safetensors,
    read_card,
    require_model,
)
from leakdet.tables.read import Columns, each_part
from leakdet.tables.schema import LABEL, RECORDED_AT, SPAN, WHY, is_reserved, texts_for_people
from leakdet.tables.write import check_output, is_regular, write_csv

if TYPE_CHECKING:
    from leakdet.scoring.detector import Detector

PAGE_BYTES = 25_000_000  # of 20,000 sites, with sounds
COMMAND = "leakdet worklist"


@dataclass(frozen=True)
class WorklistFiles:
    """Where the parts of a work list are written; None: not asked for."""

    page: Path | None
    table: Path | None
    points: Path | None
    confirm: Path | None

    @classmethod
    def named(cls, out: Path) -> "WorklistFiles":
        """A page and the tables beside it, or the one table whose ending the name has."""
        match out.suffix.lower():
            case ".html" | ".htm":
                beside = (out.with_suffix(end) for end in (".csv", ".geojson", ".confirm.csv"))
                return cls(out, *beside)
            case ".csv" | ".xlsx":
                return cls(None, out, None, None)
            case ".geojson":
                return cls(None, None, out, None)
        raise InputError(
            f"--out {out}: end the name with .html (a page, and beside it the tables), .csv, "
            ".xlsx or .geojson."
        )

    def check(self) -> None:
        """Check that all of them can be written, and that nothing else is replaced."""
        marks = (
            (self.page, f'content="{GENERATOR}"'),
            (self.table, BEGINNING),
            (self.points, CREATED_BY),
        )
        for path, mark in marks:
            if path is None:
                continue
            check_output(path, PAGE_BYTES)
            if not is_regular(path) or path.is_dir():
                raise InputError(f"--out {path}: name a file, no device and no folder.")
            if path.exists() and path.stat().st_size and not is_worklist(path, mark):
                raise InputError(
                    f"{path}: {COMMAND} would replace it, and did not write it; give another --out."
                )
        if self.confirm is not None:
            check_output(self.confirm)
            check_unlabelled(self.confirm, COMMAND)


@dataclass(frozen=True)
class Sources:
    """Where the rows are, and what is known of the model that scored the newest of them."""

    places: Sequence[Path]
    model_hash: str
    model: Path | None  # where it lies, if it is still there
    threshold: float | None
    unfinished: Sequence[Path]  # folders in which predict has not come to its end

    def sentences(self) -> list[str]:
        """What is not whole, or not at hand."""
        sentences = []
        if self.unfinished:
            names = first_few([str(place) for place in self.unfinished], 3)
            sentences.append(
                f"Not all recordings are scored yet in {names}: predict has not come to its end."
            )
        if self.model is None:
            sentences.append(
                f"The model that scored the rows ({self.model_hash or 'unknown'}) is not at hand: "
                "there are no pictures, no sounds, and no chance of a leak."
            )
        return sentences

    def parts(self) -> Iterator[Columns]:
        """Columns of some rows at a time, of one place after the other."""
        for place in self.places:
            yield from each_part(place)


def find_sources(places: Sequence[Path], model: Path | None) -> Sources:
    """Look into folders of parts and tables; `model` is where their model lies, if it was moved."""
    references = [_model_reference(place) for place in places]
    hashes = {reference.hash for reference in references}
    newest = references[0].hash if len(hashes) == 1 else _newest_model(places)
    paths = dict.fromkeys(
        reference.path for reference in references if reference.path and reference.hash == newest
    )
    lies_at = next((path for path in paths if path.is_file() and file_hash(path) == newest), None)
    if model is not None:
        lies_at = require_model(model)
        if (given := file_hash(lies_at)) != newest:
            raise InputError(
                f"--model {model}: this is {given}, and the rows were scored by "
                f"{newest or 'none'}; give the model that scored them, or score them with this one."
            )
    elif lies_at is None:
        where = f"{next(iter(paths))}: it is no longer there" if paths else "its place is not told"
        LOG.warning(
            f"the model that scored the rows ({newest or 'unknown'}): {where}; name it with --model"
        )
    threshold = next(
        (reference.threshold for reference in references if reference.hash == newest), None
    )
    unfinished = [
        place for place, reference in zip(places, references, strict=True) if not reference.finished
    ]
    return Sources(places, newest, lies_at, threshold, unfinished)


@dataclass(frozen=True)
class ModelReference:
    """The model of the rows in one place, as far as it is named; `finished`: all are there."""

    hash: str = ""
    path: Path | None = None
    threshold: float | None = None
    finished: bool = True


def _model_reference(place: Path) -> ModelReference:
    """What the description beside the rows tells, or else their first row."""
    description = place / FACTS if place.is_dir() else sidecar_path(place)
    content = read_json(description, "a description of rows") if description.is_file() else {}
    finished = not place.is_dir() or not content or bool(content.get("outcome"))
    with suppress(KeyError, TypeError):
        path, threshold = (
            Path(content["model"]["path"]),
            float(content["decision_rule"]["threshold"]),
        )
        return ModelReference(str(content["model"]["hash"]), path, threshold, finished)
    for part in each_part(place, ("path", "model", "threshold")):
        for name, threshold in zip(part.get("model", ()), part.get("threshold", ()), strict=False):
            return ModelReference(str(name), None, float(threshold), finished)
    return ModelReference(finished=finished)


def _newest_model(places: Sequence[Path]) -> str:
    """The model of the latest recording, where several scored the rows."""
    latest = ("", "")
    for place in places:
        for part in each_part(place, (RECORDED_AT, "model")):
            if RECORDED_AT in part and len(part["model"]):
                at = int(part[RECORDED_AT].argmax())
                latest = max(latest, (str(part[RECORDED_AT][at]), str(part["model"][at])))
    return latest[1]


ONE_NIGHT = timedelta(hours=18)


@dataclass(frozen=True)
class ReviewRecording:
    """A recording to hear, of a site with its rank."""

    rank: int
    row: WorklistRow
    recording: Recording


def choose_recordings(rows: Sequence[WorklistRow], most: int) -> list[ReviewRecording]:
    """Of `most` sites with sound, the most leak-like recording of their last night, by rank.

    News and backlog are taken in turns; other sites only where these leave room.
    """
    places: Counter[str] = Counter()
    turns: list[tuple[bool, int, ReviewRecording]] = []
    for rank, row in enumerate(rows, 1):
        scored = [recording for recording in row.recordings if recording.leak_prob is not None]
        if scored:
            night = [other for other in scored if _same_night(other, scored[0])]
            loudest = max(night, key=lambda other: other.leak_prob or 0.0)
            places[row.list_name] += 1
            turn = (row.list_name == "other", places[row.list_name])
            turns.append((*turn, ReviewRecording(rank, row, loudest)))
    turns.sort(key=lambda turn: turn[:2])
    return sorted((chosen for *_, chosen in turns[:most]), key=lambda chosen: chosen.rank)


def _same_night(recording: Recording, newest: Recording) -> bool:
    if recording.recorded_at is None or newest.recorded_at is None:
        return recording is newest
    return newest.recorded_at - recording.recorded_at < ONE_NIGHT


def found_file(name: str, places: Sequence[Path]) -> Location:
    """Where a recording of these rows lies: absolute, a URL, or the first that is there.

    Relative names are those of the folder in which predict ran: the current one, or else that of
    the rows or the one above it.
    """
    if is_url(name):
        return parse_location(name)
    folders = [Path(), *places, *(folder.parent for folder in places)]
    candidates = [folder / name for folder in folders]
    file = next((path for path in candidates if path.exists()), candidates[0])
    return Path(os.path.abspath(file))  # noqa: PTH100  links stay as they are named


def confirm_rows(
    chosen: Sequence[ReviewRecording], files: Sequence[Location], model: str
) -> list[dict[str, str]]:
    """The table to fill in, as learn and build read it: a row for each recording, label empty."""
    rows = []
    for choice, file in zip(chosen, files, strict=True):
        at, recording = choice.recording.recorded_at, choice.recording
        channel = {"channel": recording.channel} if recording.channel else {}
        first = {
            "path": str(file),
            **channel,
            **(recording.span._asdict() if recording.span else {}),
            "site": choice.row.site.removesuffix(f" channel {recording.channel}"),
            RECORDED_AT: "" if at is None else at.isoformat(),
        }
        columns = {name: text for name, text in choice.row.columns.items() if not is_reserved(name)}
        values = {
            **first,
            **columns,
            LABEL: "",
            WHY: f"rank {choice.rank}, {choice.row.state}: {choice.row.why}",
            "leak_prob": recording.leak_prob,
            "decision": recording.decision,
            "quiet_level_dbfs": recording.quiet_level_dbfs,
            "model": model,
        }
        rows.append(texts_for_people(values))
    return rows


def gone_sentence(files: Sequence[Location]) -> str:
    """What is said where files are no longer where predict read them; "" where all are there."""
    gone = [str(file) for file in files if isinstance(file, Path) and not file.exists()]
    if not gone:
        return ""
    return (
        f"{len(gone)} of {counted(len(files), 'recording')} to hear are no longer there "
        f"({first_few(gone, 2)}): their rows have neither picture nor sound."
    )


def review_page(
    chosen: Sequence[ReviewRecording],
    rows: Sequence[dict[str, str]],
    files: Sequence[Location],
    detector: "Detector | None",
    threshold: float,
    table: str,
) -> ReviewPage:
    """The recordings with pictures and sounds, as far as their files and the model are there."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    player = None
    if detector:
        from leakdet.scoring.playback import Player  # imports torch

        player = Player(detector.mel_detector, len(chosen))
    cards, drawn = Cards(), []
    with ProgressCounter("pictures and sounds", len(chosen), "recordings") as progress:
        for choice, values, file in zip(chosen, rows, files, strict=True):
            gone = isinstance(file, Path) and not file.exists()
            sound = excerpt(file, choice.recording.span)
            playback = player.play(sound, choice.recording.channel) if player and not gone else None
            media = vars(playback) if playback else {}
            facts = _facts(values, f"{file} (gone)" if gone else str(file))
            card = cards.card(choice.row.site, threshold, why=values[WHY], facts=facts, **media)
            drawn.append(ReviewRow(card, values))
            progress.step()
    return ReviewPage("", "", [], table, columns, drawn)


def _facts(values: Mapping[str, str], file: str) -> dict[str, str]:
    level = values["quiet_level_dbfs"]
    return {
        **{name: values.get(name, "") for name in ("channel", *SPAN)},
        "recorded": values[RECORDED_AT].replace("T", " "),
        "decision": values["decision"],
        "leak probability": values["leak_prob"][:5],
        "quiet level": f"{float(level):.0f} dB" if level else "",
        "file": file,
    }


def evidence_of(detector: "Detector | None", model: Path | None = None) -> Evidence | None:
    """The scores that a model keeps of recordings whose truth is known.

    Without a detector they are read from a `.safetensors` file alone, which needs no torch.
    """
    if detector is None:
        return evidence_in(model) if model and model.suffix == ".safetensors" else None
    kept = detector.mel_detector
    return Evidence.kept(kept.tested, kept.validation, _by_folds(kept.card))


def evidence_in(model: Path) -> Evidence | None:
    """As `evidence_of`, from a `.safetensors` file."""
    with open_safetensors(model, "numpy") as file:
        kept = {name: file.get_tensor(name) for name in {*KEPT} & {*file.keys()}}
        card = card_in(model, file.metadata())
    tested, validation = (ValidationScores.from_file(kept, split) for split in (TEST, VAL))
    return Evidence.kept(tested, validation, _by_folds(card))


def _by_folds(card: Mapping[str, Any]) -> bool:
    """True of a model that folds measured."""
    return bool(card.get("verdict", {}).get("split") == "held_out")


def write_worklist(
    sources: Sources,
    files: WorklistFiles,
    rules: WorklistRules,
    top: int,
    detector: "Detector | None",
) -> None:
    """Rank the sites and write the files."""
    LOG.info(f"rows     reading {counted(len(sources.places), 'place')}")
    worklist = make_worklist(
        read_blocks(sources.parts()), rules, evidence_of(detector, sources.model)
    )
    rows = worklist.rows
    card = _model_card(sources.model, detector)
    if card is not None:
        LOG.info(verdict_text(sources.model_hash, card))
    cautions = [*sources.sentences(), *worklist.notes]
    for caution in cautions:
        LOG.info(f"note     {caution}")
    states = Counter(row.state for row in rows)
    counts = ", ".join(f"{states[state]} {state}" for state in STATES if states[state])
    over = counted(len(worklist.nights), "night")
    lists = list_parts(rows)
    facts = {"states": dict(states), "lists": {part.name: part.sites for part in lists}}
    LOG.info(f"sites    {counted(len(rows), 'site')} over {over}: {counts}", extra={"facts": facts})
    for part in filter(lambda part: part.sites, lists):
        LOG.info(f"{part.name:<9}{counted(part.sites, 'site')}{part.ranks}: {part.meaning}")
    beside = _write_tables(files, rows)
    if files.page and files.confirm:
        review = _write_review(sources, files.confirm, rows, top, detector)
        page = WorklistPage(
            f"Work list: {counted(len(rows), 'site')} over {over}",
            f"model {sources.model_hash or 'unknown'}",
            model_verdict(card),
            [_last_night(worklist, sources.threshold)],
            cautions,
            lists,
            f"{rules.alarms} of its last {rules.of_nights} judged nights",
            rows,
            worklist.nights,
            sources.threshold,
            _method(sources, rules),
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
        write_worklist_table(files.table, rows)
        log_result(f"table    {files.table}: a row for each site")
        written.append(files.table.name)
    if files.points and any(coordinates(row) for row in rows):
        count = write_geojson(files.points, rows)
        log_result(f"points   {files.points}: {counted(count, 'site')} for a map")
        written.append(files.points.name)
    elif files.points and files.page:
        files.points.unlink(missing_ok=True)  # of an earlier list
        LOG.info(
            "note     no site has coordinates (columns lat and lon, or latitude and longitude): "
            "no map, no GeoJSON"
        )
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
    chosen = choose_recordings(rows, top)
    files = [found_file(choice.recording.path, sources.places) for choice in chosen]
    if detector and (sentence := gone_sentence(files)):
        LOG.warning(sentence)
    values = confirm_rows(chosen, files, sources.model_hash)
    page = review_page(chosen, values, files, detector, sources.threshold or 0.5, table.name)
    if chosen:
        write_csv(table, values, page.columns, for_people=True)
        log_result(f"confirm  {table}: {counted(len(chosen), 'recording')}, label to be filled in")
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


def _model_card(model: Path | None, detector: "Detector | None") -> Mapping[str, Any] | None:
    """The description in the model file; None where it is not at hand."""
    if detector is not None:
        return detector.mel_detector.card
    return read_card(model) if model and model.suffix == ".safetensors" else None


def _method(sources: Sources, rules: WorklistRules) -> dict[str, str]:
    """How the list came about: its rows, its model, and each parameter of the rule."""
    method = {
        "rows": first_few([str(place) for place in sources.places]),
        "model": f"{sources.model_hash or 'unknown'}, {sources.model or 'not at hand'}",
        "made by": f"leakdet {leakdet.__version__}",
    }
    for parameter in fields(rules):
        value = getattr(rules, parameter.name)
        shown = "not given" if value is None else f"{value:g}"
        method[f"{parameter.name} = {shown}"] = parameter.metadata["meaning"]
    return method
