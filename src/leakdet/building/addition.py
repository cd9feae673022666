"""Adds recordings to a store: its own stay where they are, new ones become shards of train or val.

The store is replaced whole, by one that links its files and has the new ones beside them. Test
stays as it is, and so does every old recording's split.
"""

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from leakdet.acoustics.mel import LogMel
from leakdet.building.builder import extract_all, open_writers, verify_mel
from leakdet.building.extraction import Extractor, StoredRecording
from leakdet.building.listing import read_source
from leakdet.building.report import (
    BuildReport,
    StoredBuild,
    link,
    link_files,
    report_of,
    write_build_files,
    write_splits,
)
from leakdet.building.scan import build_bytes, scan_headers
from leakdet.building.sources import (
    LeftOut,
    Source,
    SourceRecording,
    printable,
    relabelled,
    signal_of_store,
)
from leakdet.config import BuildConfig, SignalConfig
from leakdet.core.errors import InputError, SettingsError, counted, first_few
from leakdet.core.files import publish, require_space, staged_folder
from leakdet.core.locations import SOURCE_FILE, parse_location
from leakdet.core.messages import LOG
from leakdet.storage.ailh import is_ailh
from leakdet.storage.folder import require_store
from leakdet.storage.opening import open_split, split_names
from leakdet.storage.overlap import check_no_overlap, split_columns
from leakdet.storage.store import StoreIdentity


def add_to_store(config: BuildConfig) -> BuildReport:
    """Add the recordings of `config.source` to the store `config.add_to`, whole or not at all.

    The result describes the whole store; what was left out is of the new recordings alone.
    """
    store = Path(os.path.realpath(config.add_to))
    if config.source == "demo":
        raise SettingsError(
            "add_to= takes recordings of a folder or a table: give source= another value than demo."
        )
    before = _stored(store)
    identity = StoreIdentity.of(store)
    config = _as_built(config, before)
    with ExitStack() as stack:
        folder = stack.enter_context(staged_folder(store))
        part = folder.parent / "addition"
        part.mkdir()
        added = _build_part(config, before, part, stack)
        _link_store(before.folder, part, folder)
        check_no_overlap([open_split(folder, name) for name in split_names(folder)])
        report = report_of(store, [before])
        report.rows += added.rows
        report.dead_windows += added.dead_windows
        report.left_out += added.left_out
        report.remarks = [*report.remarks, *added.remarks]
        write_build_files(folder, before.build["settings"], report)
        identity.check("Nothing was added.")
        publish(folder, store)
    report.left_out, report.remarks = added.left_out, added.remarks
    return report


def _stored(store: Path) -> StoredBuild:
    require_store(store)
    if is_ailh(store):
        raise InputError(
            f"{store}: an AILH store cannot be added to. Convert it first: "
            f"leakdet build {store} {store}-converted"
        )
    return StoredBuild.read(store)


def _as_built(config: BuildConfig, before: StoredBuild) -> BuildConfig:
    """The settings with those that the store was built with: signal, groups, sound, compression."""
    signal = signal_of_store(before.folder)
    given = config.like or config.signal != SignalConfig()
    if given and (differing := signal.differences(config.signal)):
        raise InputError(
            f"{before.folder}: it was built with another signal (store / given): "
            f"{'; '.join(differing)}. A store keeps its signal: leave out like= and signal=, or "
            "build a store of its own."
        )
    built = before.build["settings"]
    group_by = split_columns(
        [open_split(before.folder, name) for name in split_names(before.folder)]
    )
    return replace(
        config,
        signal=signal,
        split=replace(config.split, group_by=group_by),
        waveform=built.get("waveform", "none"),
        compression=built.get("compression", "none"),
    )


def _build_part(
    config: BuildConfig, before: StoredBuild, part: Path, stack: ExitStack
) -> BuildReport:
    """Extract the new recordings into HDF5 files of their own in `part`."""
    report = BuildReport(part, config.signal)
    report.label_names, report.leak_labels = (
        list(before.build[name]) for name in ("label_names", "leak_labels")
    )
    source = _labelled(config, before)
    scan = scan_headers(source, config)
    report.left_out, report.remarks = scan.left_out, scan.remarks
    places = _SplitAssigner(config.split.group_by, before)
    assigned = places.of(scan.readable, report.left_out)
    if not assigned:
        raise _nothing(before.folder, report)
    recordings, splits = zip(*assigned, strict=True)
    writers = open_writers(stack, part, config, report, recordings, splits)
    need = build_bytes(assigned, scan.about_s, config.signal, config)
    LOG.info(f"space    {require_space(part, need, f'add_to={config.add_to}')}")
    log_mel = LogMel(config.signal)
    stored = [
        StoredRecording(row["recording_id"], row["content_sha256"], row["split"], row["label"])
        for row in before.rows
    ]
    extract = Extractor(log_mel, config.waveform, part, part)
    extract_all(assigned, writers, extract, report, config.workers, stored)
    writers = {name: writer for name, writer in writers.items() if writer.rows}
    if not writers:
        raise _nothing(before.folder, report)
    write_splits(writers, part, config, report)
    if config.verify != "off":
        verify_mel(part, part, log_mel, config.verify == "full", config.workers)
    counts = ", ".join(f"{len(writer.rows)} to {name}" for name, writer in writers.items())
    report.remarks.append(
        f"Added to the {counted(len(before.rows), 'recording')} of the store: {counts}."
    )
    return report


def _labelled(config: BuildConfig, before: StoredBuild) -> Source:
    """The recordings of the source under the labels of the store."""
    names, leaks = before.build["label_names"], before.build["leak_labels"]
    labels = replace(config.labels, leak=config.labels.leak or leaks)
    by_channel = config.signal.channels == "each"
    source = read_source(parse_location(config.source), by_channel)
    source, view = relabelled(source, labels, config.source, known=names)
    counts = Counter(recording.label for recording in source.recordings)
    unknown = {label: count for label, count in counts.items() if label not in names}
    if unknown:
        label, count = next(iter(unknown.items()))
        raise InputError(
            f"{config.source}: {counted(count, 'recording')} with the label {label}, which is "
            f"none of {before.folder} ({', '.join(names)}). Say which of these it means, "
            f"'labels.rename={{{label}: LABEL}}', or leave them out: labels.ignore={label}"
        )
    if set(view.leaks) != set(leaks):
        raise InputError(
            f"{config.source}: labels.leak={list(view.leaks)}, but in {before.folder} leaks are "
            f"{', '.join(leaks)}. A store keeps what its labels mean."
        )
    return source


@dataclass
class _SplitAssigner:
    """The split that a new recording joins; no group comes to lie in two."""

    group_by: Sequence[str]
    before: StoredBuild
    _split_of: dict[tuple[str, ...], str] = field(default_factory=dict)

    def of(
        self, recordings: Sequence[SourceRecording], left_out: list[LeftOut]
    ) -> list[tuple[SourceRecording, str]]:
        """The recordings with their splits; those that may join none are left out with a reason."""
        self._check_columns(recordings)
        for row in self.before.rows:
            self._split_of[self._key(row)] = self._split_of["file", row["path"]] = row["split"]
        taken = {row["recording_id"] for row in self.before.rows}
        assigned = []
        for listed in recordings:
            recording = _named_apart(listed, taken)
            split, key = recording.split or "train", self._key(recording.groups)
            lies_in = self._split_of.setdefault(key, split) if any(key) else split
            file = recording.groups.get(SOURCE_FILE, "") if recording.span else ""
            file_in = self._split_of.setdefault(("file", file), split) if file else split
            if split == "test":
                reason = "the test split stays as it is: new recordings join train or val"
            elif lies_in != split:
                named = " / ".join(self.group_by)
                reason = f"its {named} {'/'.join(key)} lies in {lies_in}, and it would join {split}"
            elif file_in != split:
                reason = f"its file lies in {file_in}, and it would join {split}"
            else:
                assigned.append((recording, split))
                continue
            left_out.append(LeftOut(recording.recording_id, reason))
        return assigned

    def _key(self, values: Any) -> tuple[str, ...]:
        return tuple(values.get(column, "") for column in self.group_by)

    def _check_columns(self, recordings: Sequence[SourceRecording]) -> None:
        known = {column for recording in recordings for column in recording.groups}
        lacking = [column for column in self.group_by if column not in {*known, SOURCE_FILE}]
        if lacking and recordings:
            raise InputError(
                f"{self.before.folder}: its splits share no {' or '.join(lacking)}, and the source "
                f"does not say it of the new recordings. Add {first_few(lacking)} as a column."
            )


def _named_apart(recording: SourceRecording, taken: set[str]) -> SourceRecording:
    """The recording under its whole path, where the store has one of its name already."""
    if recording.recording_id not in taken:
        return recording
    part = f"#{recording.span}" if recording.span else ""
    part += f"#channel{recording.channel}" if recording.channel else ""
    return replace(recording, recording_id=printable(f"{recording.path.absolute()}{part}"))


def _nothing(store: Path, report: BuildReport) -> InputError:
    reasons = [f"{item.path}: {item.reason}" for item in report.left_out]
    return InputError(f"{store}: there is nothing to add. Left out: {first_few(reasons, 3)}.")


def _link_store(store: Path, part: Path, folder: Path) -> None:
    """Fill the new store's `folder`: the files of both as shards, and whatever else the old has."""
    skipped = {"build.json", "recordings.csv"}
    for path in store.iterdir():
        if path.name in skipped or path.suffix == ".h5":
            continue
        _link_all(path, folder / path.name)
    link_files([store, part], folder)


def _link_all(path: Path, target: Path) -> None:
    """Link a file, a folder's files or the place that a symbolic link names."""
    if path.is_symlink():
        target.symlink_to(path.readlink())
    elif path.is_dir():
        target.mkdir()
        for inside in path.iterdir():
            _link_all(inside, target / inside.name)
    else:
        link(path, target)
