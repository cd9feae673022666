"""Verdicts on any number of recordings, in parts that survive a kill, here or by a cluster."""

import argparse
import hashlib
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

import leakdet
from leakdet.core.errors import InputError, counted, first_few
from leakdet.core.files import (
    locked,
    read_json,
    require_folder,
    require_space,
    whole_file,
    write_json,
)
from leakdet.core.locations import Location, absolute_name, local_copy
from leakdet.core.messages import LOG, log_result, log_results
from leakdet.core.parallel import Engine, KillsWorkersError
from leakdet.core.process import DONE, PARTLY
from leakdet.core.progress import ProgressCounter
from leakdet.detection.decision import DecisionRule
from leakdet.detection.source_rates import SourceRates
from leakdet.scoring.listing import (
    REPEATED,
    Listing,
    check_listing,
    is_model,
    list_recordings,
    refuse_models,
)
from leakdet.scoring.prediction import VerdictCounts, columns_by, now, run_facts
from leakdet.storage.model_card import file_hash, missing_sounds, require_model
from leakdet.tables.parts_db import BATCH_FILES, FileBatch, ListingRecord, RecordingsDb
from leakdet.tables.read import part_files
from leakdet.tables.schema import InputRecording, Verdict
from leakdet.tables.write import ROW_BYTES, part_bytes, require_format

if TYPE_CHECKING:
    from leakdet.scoring.detector import Detector

FACTS, LIST, LOCK = "parts.json", "recordings.sqlite", "lock"
KIND = "parts of leakdet predict"
OUTCOME = "outcome"  # key in parts.json: null until all is scored
BEGINNING = {LIST, f"{LIST}-journal", LOCK}  # of a start that came no further
ANEW = "Name another folder."


@dataclass
class PartsFolder:
    """A folder of parts that this process alone may write."""

    path: Path
    db: RecordingsDb
    facts: dict[str, Any] = field(default_factory=dict)  # of parts.json; empty: not begun
    is_finished: bool = False  # parts.json tells the outcome

    def check_same(self, model_hash: str, settings: Mapping[str, Any]) -> None:
        """Check that the model and the settings are those that the folder was begun with."""
        if not self.facts:
            return
        was, of_model = self.facts["settings"], self.facts["model"]
        differences = []
        if of_model["hash"] != model_hash:
            differences.append(
                f"the model was {of_model['hash']} ({of_model['path']}), and is {model_hash} now"
            )
        differences += [
            f"--{name} was {_given(was.get(name))}, and is {_given(value)} now"
            for name, value in settings.items()
            if was.get(name) != value
        ]
        if differences:
            raise InputError(
                f"--parts {self.path}: {'; '.join(differences)}. Rows of both would not go "
                "together: go on with what the folder was begun with, or name another one."
            )
        if self.facts["created_by"] != f"leakdet {leakdet.__version__}":
            LOG.warning(
                f"{self.path} was begun by {self.facts['created_by']}, and goes on with "
                f"{leakdet.__version__}: scores may differ in their last digits"
            )

    def check_columns(self, columns: Sequence[str]) -> None:
        """Check that rows have the columns of those that are there."""
        was = self.facts.get("columns", columns)
        if list(was) != list(columns):
            other = sorted({*was} ^ {*columns}) or ["in another order"]
            raise InputError(
                f"--parts {self.path}: its parts have other columns than rows have now "
                f"({', '.join(other)}; begun by {self.facts['created_by']}). {ANEW}"
            )

    def write_facts(self, **outcome: Any) -> None:
        """Write parts.json: what the folder was begun with, and the outcome, once it has one."""
        write_json(
            self.path / FACTS, {"kind": KIND, **self.facts, OUTCOME: outcome or None}, seal=True
        )

    def publish(self, number: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the part of a batch: it is there under its name when it is whole and recorded."""
        kind, counts = self.facts["settings"]["format"], VerdictCounts()
        for row in rows:
            counts.add(row)
        content = part_bytes(rows, self.facts["columns"], kind)
        path = self.path / f"part-{number:05}.{kind}"
        try:
            with whole_file(path) as partial:
                partial.write_bytes(content)
                self.db.record(number, _sha256(content), counts.state())
        except OSError as error:  # a full disk does not say which
            error.filename = error.filename or str(path)
            raise

    def repair(self) -> None:
        """Have the batches scored again whose parts are gone, or are not as they were written.

        What lies under the name of such a part is kept under another one.
        """
        for left in self.path.glob(".part-*"):  # of a killed process
            left.unlink()
        hashes, aside = self.db.hashes(), list[str]()
        for number, path in part_files(self.path):
            if hashes.get(number) == _sha256(path.read_bytes()):
                del hashes[number]
            else:
                aside.append(_set_aside(path).name)
        if aside:
            LOG.warning(
                f"{self.path}: {counted(len(aside), 'part')} damaged or edited, kept as "
                f"{first_few(aside, 3)}; the files are scored again"
            )
        for number in hashes:
            self.db.forget(number)
        if gone := len(hashes) - len(aside):
            LOG.info(f"parts    {gone} not finished or removed: the files are scored again")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _given(value: object) -> str:
    return "not given" if value is None else str(value)


def _set_aside(path: Path) -> Path:
    taken = len(list(path.parent.glob(f"{path.name}.changed*")))
    return path.rename(path.with_name(f"{path.name}.changed{taken or ''}"))


@contextmanager
def parts_folder(path: Path) -> Iterator[PartsFolder]:
    """The folder, made if need be, and held by this process alone until the block ends.

    Of a folder that was not begun in the block nothing is left.
    """
    require_folder(path, f"--parts {path}")
    _check_ours(path)
    is_new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        try:
            facts = _facts(path)
            if not facts:
                _remove_beginning(path)
            batch_files = facts.get("batch_files", BATCH_FILES)
            with closing(RecordingsDb(path / LIST, batch_files)) as db:
                yield PartsFolder(path, db, facts, bool(facts.pop(OUTCOME, None)))
        finally:
            if not (path / FACTS).exists():
                _remove_beginning(path)
                (path / LOCK).unlink(missing_ok=True)
                if is_new:
                    with suppress(OSError):  # it was removed, or others put files there
                        path.rmdir()


def _check_ours(path: Path) -> None:
    names = {file.name for file in path.iterdir()} if path.exists() else set()
    if FACTS not in names and names - BEGINNING:
        raise InputError(
            f"--parts {path}: holds other files ({first_few(sorted(names - BEGINNING), 3)}) and no "
            f"{FACTS}; name a new folder, an empty one, or one that predict --parts began."
        )


def _facts(path: Path) -> dict[str, Any]:
    """What parts.json says; empty where the folder is not begun."""
    if not (path / FACTS).exists():
        return {}
    facts = read_json(path / FACTS, "the description of a folder of parts", ANEW)
    if facts.pop("kind", None) != KIND:
        raise InputError(f"{path / FACTS}: not the description of a folder of parts. {ANEW}")
    if not (path / LIST).exists():
        raise InputError(
            f"{path / LIST}: the list of recordings is gone, so nobody knows what is scored. Copy "
            "it back, or name another folder."
        )
    return facts


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path / LOCK, wait=False))
        except BlockingIOError as error:
            raise InputError(
                f"--parts {path}: another process writes parts there; wait until it has ended, or "
                "name another folder."
            ) from error
        yield


def _remove_beginning(path: Path) -> None:
    for name in BEGINNING - {LOCK}:
        (path / name).unlink(missing_ok=True)


IN_FLIGHT = 4  # batches with each worker of a cluster
MOST_KILLING = 3  # files that kill their workers before any is scored: it is the machine

Rows = list[dict[str, Any]]
# Batches with their rows, in any order; it says how many files more are scored.
Scores = Callable[[Iterable[FileBatch], Callable[[int], None]], Iterator[tuple[FileBatch, Rows]]]


@dataclass(frozen=True)
class ModelOptions:
    """A model file, and how it is loaded, for other processes."""

    path: Location  # absolute
    file_hash: str
    device: str = "auto"
    trust_network: tuple[str, ...] = ()
    threshold: float | None = None
    policy: str | None = None
    unfamiliar: str | None = None
    doubt: float | None = None
    source: str | None = None

    def load(self) -> "Detector":
        from leakdet.scoring.detector import load_detector

        return load_detector(
            self.path,
            self.device,
            self.trust_network,
            threshold=self.threshold,
            policy=self.policy,
            unfamiliar=self.unfamiliar,
            doubt=self.doubt,
            source=self.source,
        )


def by_threads(detector: "Detector", workers: int = 0) -> Scores:
    """Scores by `workers` threads (0: one per core), without a pause between batches."""

    def scores(
        batches: Iterable[FileBatch], step: Callable[[int], None]
    ) -> Iterator[tuple[FileBatch, Rows]]:
        batches, ahead = tee(batches)
        recordings = chain.from_iterable(batch.recordings for batch in ahead)
        verdicts = detector.verdicts_of(recordings, workers)
        for batch in batches:
            rows: Rows = []
            for path, of_file in zip(batch.paths, verdicts, strict=False):
                rows += _rows_of(path, of_file)
                step(1)
            yield batch, rows

    return scores


def by_cluster(engine: Engine, options: ModelOptions) -> Scores:
    """Scores by the workers of a cluster, a batch at a time.

    A batch that every worker is lost with is scored file by file, and files that kill their workers
    even so get a row with an error.
    """
    work = partial(score_batch, options)
    scored = killing = 0

    def file_by_file(batch: FileBatch) -> Rows:
        nonlocal scored, killing
        rows: Rows = []
        for at in range(len(batch)):
            try:
                rows += engine.run_isolated(work, batch.only(at))
                scored += 1
            except KillsWorkersError as error:
                killing += 1
                if not scored and killing == MOST_KILLING:
                    raise
                LOG.warning(f"{batch.paths[at]}: {error.reason}; its row has this as its error")
                rows += engine.run_isolated(work, batch.only(at, error.reason))
        return rows

    def scores(
        batches: Iterable[FileBatch], step: Callable[[int], None]
    ) -> Iterator[tuple[FileBatch, Rows]]:
        nonlocal scored
        for batch, rows in engine.unordered(work, batches, IN_FLIGHT, file_by_file):
            scored += any(not row["error"] for row in rows)
            step(len(batch))
            yield batch, rows

    return scores


def score_batch(options: ModelOptions, batch: FileBatch) -> Rows:
    """The rows of a batch, by a detector that stays loaded in this process."""
    verdicts = _detector(options).score_together(batch.recordings)
    return [row for pair in zip(batch.paths, verdicts, strict=True) for row in _rows_of(*pair)]


@lru_cache(maxsize=2)
def _detector(options: ModelOptions) -> "Detector":
    try:
        detector = options.load()
    except InputError as error:
        raise InputError(
            f"on {socket.gethostname()}: {error} All machines of a cluster must see the model and "
            "the recordings under the same paths."
        ) from error
    loaded_hash = detector.mel_detector.file_hash
    if loaded_hash != options.file_hash:
        raise InputError(
            f"on {socket.gethostname()}: {options.path} is the model {loaded_hash}, and this "
            f"command's is {options.file_hash}. All machines of a cluster must see the same files."
        )
    return detector


def _rows_of(path: str, verdicts: Iterable[Verdict]) -> Rows:
    """The rows of a file under this path."""
    rows = [verdict.to_dict() for verdict in verdicts]
    for row in rows:
        row["path"] = path
        del row["timeline"]
    return rows


def predict_parts(arguments: argparse.Namespace, rule: Mapping[str, Any]) -> int:
    """Score what is not scored yet; the exit code tells of the newest listing alone."""
    settings = {**rule, "format": arguments.format or "csv"}
    require_format(settings["format"])
    model = require_model(arguments.model)
    model_hash = file_hash(local_copy(model))
    with parts_folder(arguments.parts) as folder:
        folder.check_same(model_hash, settings)
        listed = _listed(folder, arguments)
        folder.repair()
        left = folder.db.files - folder.db.scored()
        require_space(folder.path, ROW_BYTES * left, f"--parts {folder.path}")
        missing = ""
        if left:
            LOG.info(f"files    {left} to score: loading torch")

            options = ModelOptions(
                model.absolute(),
                model_hash,
                arguments.device,
                tuple(arguments.trust_network),
                **rule,
            )
            missing = _score(folder, options, settings, arguments)
        code = _finish(folder, listed)
        if missing:
            LOG.info(missing)
        return code


def _listed(folder: PartsFolder, arguments: argparse.Namespace) -> ListingRecord:
    """The listing that this run is about: a new one, or the newest of a folder that was begun."""
    pattern = arguments.name_pattern
    names = list(map(absolute_name, arguments.paths))
    names += [f"--name-pattern {pattern}"] * bool(pattern)
    earlier = folder.db.listings
    if not earlier or arguments.new_only:
        return _list_anew(
            folder, list_recordings(arguments.paths, arguments.name_pattern), names, arguments.model
        )
    if all(names != listed.names for listed in earlier):
        raise InputError(
            f"--parts {folder.path}: was begun with other recordings; add --new-only to score "
            "these too, or name another folder."
        )
    newest = earlier[-1]
    with suppress(InputError):  # of tables that are gone, whose recordings are listed all the same
        for table in list_recordings(arguments.paths, pattern).tables.values():
            deque(table, maxlen=0)  # its URLs may have new signatures
    LOG.info(
        f"files    {folder.db.files}, listed at {newest.listed_at}; --new-only adds what came since"
    )
    return newest


def _list_anew(
    folder: PartsFolder, listing: Listing, names: list[str], model: Location
) -> ListingRecord:
    earlier = folder.db.listings
    if earlier and (unknown := {*listing.columns} - {*earlier[0].columns}):
        raise InputError(
            f"--parts {folder.path}: its list has no column {', '.join(sorted(unknown))}, and all "
            "parts have the same columns. Leave it out, or name another folder."
        )
    try:
        first, files, repeated = folder.db.add(_without_models(listing, model))
        check_listing(listing, bool(earlier or files))
    except BaseException:
        folder.db.rollback()
        raise
    left_out = listing.sentences()
    if repeated and not earlier:
        left_out.append(f"{REPEATED}: {repeated}")
    listed = ListingRecord(
        first, files, now(), names, list(listing.columns), left_out, listing.complete
    )
    before = folder.db.files
    folder.db.commit(listed)
    if earlier:
        LOG.info(f"files    {files} new, {before} listed before")
    return listed


def _without_models(listing: Listing, model: Location) -> Iterator[InputRecording]:
    for recording in listing:
        if is_model(recording.source):
            refuse_models([recording.source], model)
        yield recording


def _score(
    folder: PartsFolder,
    options: "ModelOptions",
    settings: Mapping[str, Any],
    arguments: argparse.Namespace,
) -> str:
    """Score and publish all batches that have no part; returns what the training lacked, or ""."""
    from leakdet.scoring.prediction import model_text

    detector = options.load()
    LOG.info(model_text(detector.mel_detector, detector.decided_anew))
    columns = columns_by(detector.mel_detector, folder.db.listings[0].columns)
    folder.check_columns(columns)
    begun = {"started_at": now(), "batch_files": folder.db.batch_files, "columns": columns}
    folder.facts = folder.facts or {**begun, **run_facts(detector, settings)}
    folder.write_facts()
    with ExitStack() as stack:
        stack.enter_context(_kept_rows_reported(folder))
        if arguments.cluster:
            from leakdet.core.parallel import cluster

            engine = stack.enter_context(cluster(arguments.cluster))
            scores = by_cluster(engine, options)
        else:
            scores = by_threads(detector, arguments.workers)
        progress = stack.enter_context(ProgressCounter("scoring", folder.db.files, "files"))
        progress.begin_at(folder.db.scored())
        for batch, rows in scores(folder.db.batches(), progress.step):
            folder.publish(batch.number, rows)
    folder.is_finished = False  # until the new outcome is written
    return missing_sounds(detector.mel_detector.card)


@contextmanager
def _kept_rows_reported(folder: PartsFolder) -> Iterator[None]:
    """Where scoring ends early, say what stays and how to go on."""
    try:
        yield
    except BaseException:
        with suppress(InputError, OSError):
            scored, files = folder.db.scored(), folder.db.files
            if folder.path.exists():
                log_result(
                    f"parts    {scored} of {files} files are scored and stay in {folder.path}; the "
                    "same command goes on"
                )
        raise


def _finish(folder: PartsFolder, listed: ListingRecord) -> int:
    """Count all parts, write the outcome, print that of the newest listing; gives its exit code."""
    counts, newest = VerdictCounts(), VerdictCounts()
    for state in folder.db.counts():
        counts.merge(state)
    for state in folder.db.counts(listed.first):
        newest.merge(state)
    if not folder.is_finished:
        records = [
            {
                "listed_at": record.listed_at,
                "files": record.files,
                "inputs": record.names,
                "left_out": record.left_out,
            }
            for record in folder.db.listings
        ]
        folder.write_facts(
            finished_at=now(), files=folder.db.files, listings=records, **counts.to_json()
        )
    rule = DecisionRule.from_json(folder.facts["decision_rule"])
    sources = SourceRates.from_json(folder.facts.get("source_rates"))
    (newest if newest.total else counts).log(rule, sources)
    parts = counted(len(folder.db.hashes()), "part")
    LOG.info(f"parts    {folder.path}: {counted(folder.db.files, 'file')} in {parts}")
    log_results(listed.left_out)
    return DONE if listed.complete and not newest.failed else PARTLY
