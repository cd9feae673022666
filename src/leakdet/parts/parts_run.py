"""A whole run of `leakdet predict --parts`: lists, goes on where it stopped, scores, publishes."""

import argparse
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakdet._exit_codes import DONE, PARTLY
from leakdet._messages import LOG, log_result, log_results
from leakdet._progress import ProgressCounter
from leakdet._remote import RemoteFile, absolute_name
from leakdet._remote_copies import local_copy
from leakdet.errors import InputError, counted
from leakdet.parts.part_file import require_format
from leakdet.parts.parts_folder import PartsFolder, parts_folder
from leakdet.parts.recordings_db import Listed
from leakdet.scoring.file_list import check_listing, is_model, refuse_models
from leakdet.scoring.listed_recording import (
    REPEATED,
    ListedRecording,
    Listing,
    list_recordings,
)
from leakdet.scoring.row_writers import ROW_BYTES, columns_by
from leakdet.scoring.sidecar import now, run_facts
from leakdet.scoring.summary import VerdictCounts
from leakdet.storage.disk_space import require_space
from leakdet.storage.model_card import file_hash
from leakdet.storage.model_place import require_model

if TYPE_CHECKING:
    from leakdet.parts.batch_scores import ModelOptions


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
        if left:
            LOG.info(f"files    {left} to score: loading torch")
            from leakdet.parts.batch_scores import ModelOptions

            options = ModelOptions(
                model.absolute(),
                model_hash,
                arguments.device,
                tuple(arguments.trust_network),
                **rule,
            )
            _score(folder, options, settings, arguments)
        return _tell(folder, listed)


def _listed(folder: PartsFolder, arguments: argparse.Namespace) -> Listed:
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
    LOG.info(
        f"files    {folder.db.files}, listed at {newest.listed_at}; --new-only adds what came since"
    )
    return newest


def _list_anew(
    folder: PartsFolder, listing: Listing, names: list[str], model: Path | RemoteFile
) -> Listed:
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
    told = list(listing.columns), left_out, listing.complete
    listed = Listed(first, files, now(), names, *told)
    before = folder.db.files
    folder.db.commit(listed)
    if earlier:
        LOG.info(f"files    {files} new, {before} listed before")
    return listed


def _without_models(listing: Listing, model: Path | RemoteFile) -> Iterator[ListedRecording]:
    for recording in listing:
        if is_model(recording.source):
            refuse_models([recording.source], model)
        yield recording


def _score(
    folder: PartsFolder,
    options: "ModelOptions",
    settings: Mapping[str, Any],
    arguments: argparse.Namespace,
) -> None:
    """Score and publish all batches that have no part."""
    from leakdet.parts.batch_scores import by_cluster, by_threads
    from leakdet.scoring.summary import model_text

    detector = options.load()
    LOG.info(model_text(detector.mel_detector, detector.decided_anew))
    columns = columns_by(detector.mel_detector, folder.db.listings[0].columns)
    folder.check_columns(columns)
    begun = {"started_at": now(), "batch_files": folder.db.batch_files, "columns": columns}
    folder.facts = folder.facts or {**begun, **run_facts(detector, settings)}
    folder.write_facts()
    with ExitStack() as stack:
        stack.enter_context(_told_what_stays(folder))
        if arguments.cluster:
            from leakdet._cluster import cluster

            engine = stack.enter_context(cluster(arguments.cluster))
            scores = by_cluster(engine, options)
        else:
            scores = by_threads(detector, arguments.workers)
        progress = stack.enter_context(ProgressCounter("scoring", folder.db.files, "files"))
        progress.begin_at(folder.db.scored())
        for batch, rows in scores(folder.db.batches(), progress.step):
            folder.publish(batch.number, rows)
    folder.is_finished = False  # until the new outcome is written


@contextmanager
def _told_what_stays(folder: PartsFolder) -> Iterator[None]:
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


def _tell(folder: PartsFolder, listed: Listed) -> int:
    """Count all parts, write the outcome, print that of the newest listing; gives its exit code."""
    counts, newest = VerdictCounts(), VerdictCounts()
    for state in folder.db.counts():
        counts.merge(state)
    for state in folder.db.counts(listed.first):
        newest.merge(state)
    listings = folder.db.listings
    if not folder.is_finished:
        told = [{"listed_at": one.listed_at, "files": one.files, "inputs": one.names,
                 "left_out": one.left_out} for one in listings]  # fmt: skip
        folder.write_facts(
            finished_at=now(), files=folder.db.files, listings=told, **counts.to_json()
        )
    (newest if newest.total else counts).log()
    parts = counted(len(folder.db.hashes()), "part")
    LOG.info(f"parts    {folder.path}: {counted(folder.db.files, 'file')} in {parts}")
    log_results(listed.left_out)
    return DONE if listed.complete and not newest.failed else PARTLY
