"""Builds a store from audio: reads each recording once, writes its log-mel, verifies, publishes."""

import os
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from leakdet._messages import LOG
from leakdet._progress import ProgressCounter
from leakdet._remote import RemoteFile, place
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.synth import write_demo
from leakdet.building.build_report import BuildReport, write_build_files, write_splits
from leakdet.building.duplicates import DuplicateFilter, StoredRecording
from leakdet.building.extraction import Extraction, Extractor
from leakdet.building.extraction_engine import extraction_engine
from leakdet.building.header_scan import HeaderScan, scan_headers
from leakdet.building.mel_verification import verify_mel
from leakdet.building.source_labels import relabelled
from leakdet.building.source_listing import read_source
from leakdet.building.sources import LeftOut, Source, SourceRecording
from leakdet.building.splits import assign_splits, check_division
from leakdet.building.store_size import build_bytes
from leakdet.building.surrogate_split import write_surrogates
from leakdet.config import BuildConfig, DemoConfig
from leakdet.errors import InputError
from leakdet.storage.atomic import check_free, publish, staged_folder
from leakdet.storage.disk_space import require_space
from leakdet.storage.layout import SOURCE_FILE
from leakdet.storage.store import SPLITS
from leakdet.storage.writer import SplitWriter


def build_store(config: BuildConfig, listed: Source | None = None) -> BuildReport:
    """Build `config.out` from `config.source`, atomically.

    `listed` are its recordings where the caller has read them.

    Raises:
        InputError: see `read_source` and `assign_splits`; or `out` exists, or verification failed.
    """
    out = Path(config.out).absolute()
    check_free(out, config.overwrite)
    with ExitStack() as stack:
        folder = stack.enter_context(staged_folder(out))
        report = BuildReport(out, config.signal)
        source, view = relabelled(
            listed or _read_source(config, folder), config.labels, config.source
        )
        if config.source != "demo" and out.exists():
            _check_apart(out, place(config.source), source)
        report.remarks += [f"Labels: {line}." for line in (view.sentence(), *view.notes())]
        report.remarks += source.remarks
        if config.source == "demo" and not config.split.group_by:
            config = replace(config, split=replace(config.split, group_by=["site"]))
            report.remarks.append("The demo is split by site (split.group_by=[site]).")
        engine = stack.enter_context(extraction_engine(config))
        scan = scan_headers(source, config)
        config = _channels_together(config, scan, report)
        report.signal, report.left_out = scan.signal, scan.left_out
        report.remarks += scan.remarks
        report.label_names = sorted({recording.label for recording in scan.readable})
        report.leak_labels = [name for name in report.label_names if name in view.leaks]
        splits = assign_splits(scan.readable, config.split, report.leak_labels)
        assigned = list(zip(scan.readable, splits, strict=True))
        check_division(assigned, config.split, report.leak_labels)  # before any sound is decoded
        writers = open_writers(stack, folder, config, report, scan.readable, splits)
        need = build_bytes(assigned, scan.about_s, scan.signal, config, report.leak_labels)
        LOG.info(f"space    {require_space(folder, need, f'out={config.out}')}")
        log_mel = LogMel(scan.signal)
        extract = Extractor(log_mel, config.waveform, folder, out)
        extraction = partial(engine, extract, scan.about_s)
        extract_all(assigned, writers, extraction, report)
        kept = {row.recording_id for writer in writers.values() for row in writer.rows}
        left = [pair for pair in assigned if pair[0].recording_id in kept]
        check_division(left, config.split, report.leak_labels)
        if config.surrogates:
            write_surrogates(scan.readable, writers["train"], extraction, config, report)
        write_splits(writers, folder, config, report)
        if config.verify != "off":
            full = config.verify == "full"
            verify_mel(folder, out, log_mel, full, config.workers)
            which = "every recording" if full else "a sample of the recordings"
            report.remarks.append(f"Verified: the mel of {which} equals that of its audio.")
        write_build_files(folder, asdict(config), report)
        publish(folder, out)
    return report


def _check_apart(out: Path, source: Path | RemoteFile, listed: Source) -> None:
    """Refuse to replace a store that holds what is to be read: it would be deleted with it.

    Raises:
        InputError: the source, or a recording of it, lies in `out`.
    """
    target = os.path.realpath(out)
    for path in (source, *(recording.path for recording in listed.recordings)):
        if isinstance(path, Path) and f"{os.path.realpath(path)}/".startswith(f"{target}/"):
            raise InputError(
                f"out={out}: {path} lies in it and would be deleted with the store that is "
                "replaced. Give out= another name."
            )


def _channels_together(config: BuildConfig, scan: HeaderScan, report: BuildReport) -> BuildConfig:
    """The same settings, which keep the channels of a file together where each is a recording."""
    files = len({recording.path for recording in scan.readable})
    if config.signal.channels != "each" or files == len(scan.readable):
        return config
    text = f"Every channel is a recording: {len(scan.readable)} channels of {files} files"
    if config.split.group_by:
        report.remarks.append(f"{text}.")
        return config
    report.remarks.append(f"{text}; a file lies in one split (split.group_by=[{SOURCE_FILE}]).")
    return replace(config, split=replace(config.split, group_by=[SOURCE_FILE]))


def _read_source(config: BuildConfig, folder: Path) -> Source:
    if config.source != "demo":
        return read_source(place(config.source), by_channel=config.signal.channels == "each")
    return read_source(_synthesise(config.demo, folder))


def _synthesise(demo: DemoConfig, folder: Path) -> Path:
    count = demo.sites * demo.recordings_per_site
    with ProgressCounter("synthesising", count, "recordings") as progress:
        return write_demo(folder, demo, lambda done, total: progress.step(done - progress.done))


def open_writers(
    stack: ExitStack,
    folder: Path,
    config: BuildConfig,
    report: BuildReport,
    recordings: Sequence[SourceRecording],
    splits: Sequence[str],
) -> dict[str, SplitWriter]:
    """A writer for each split, with the group columns that the split has in the whole source."""
    columns: dict[str, set[str]] = {name: set() for name in splits}
    for recording, name in zip(recordings, splits, strict=True):
        columns[name] |= recording.groups.keys()
    writers = {}
    for name in sorted(columns, key=SPLITS.index):
        writers[name] = SplitWriter(
            folder,
            name,
            report.signal,
            config.waveform,
            config.split.group_by,
            sorted(columns[name]),
        )
        stack.callback(writers[name].discard)
    return writers


def extract_all(
    assigned: Sequence[tuple[SourceRecording, str]],
    writers: dict[str, SplitWriter],
    extraction: Extraction,
    report: BuildReport,
    stored: Sequence[StoredRecording] = (),
) -> None:
    """Fill the writers in the order of the source, without what is `stored` already."""
    duplicates = DuplicateFilter(writers, report, stored)
    recordings = [recording for recording, _ in assigned]
    with ProgressCounter("building", len(assigned), "recordings") as progress:
        results = extraction(recordings, progress.step)
        for (recording, split), extracted in zip(assigned, results, strict=True):
            if isinstance(extracted, LeftOut):
                report.left_out.append(extracted)
                continue
            with closing(extracted):
                row = extracted.row
                if duplicates.admit(recording, row.content_sha256, split):
                    writers[split].add(row, extracted.mel, extracted.sound)
