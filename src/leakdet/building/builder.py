"""Builds a store from audio: reads each recording once, writes its log-mel, verifies, publishes.

It verifies because, in AILH stores, a shared buffer once gave most recordings the mel of another
file, unnoticed for weeks.
"""

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.synth import write_demo
from leakdet.acoustics.windows import MelStream
from leakdet.building.extraction import (
    DuplicateFilter,
    Extractor,
    StoredRecording,
)
from leakdet.building.listing import read_source
from leakdet.building.report import BuildReport, write_build_files, write_splits
from leakdet.building.scan import HeaderScan, build_bytes, scan_headers
from leakdet.building.sources import LeftOut, Source, SourceRecording, relabelled
from leakdet.building.splits import assign_splits, check_division, split_origin
from leakdet.config import BuildConfig, DemoConfig
from leakdet.core.errors import InputError
from leakdet.core.files import check_free, publish, require_space, staged_folder
from leakdet.core.locations import SOURCE_FILE, Excerpt, Location, excerpt, parse_location
from leakdet.core.messages import log_detail, log_result
from leakdet.core.parallel import in_order
from leakdet.core.process import Stopped
from leakdet.core.progress import ProgressCounter
from leakdet.storage.store import SPLITS, StoreSplit, open_leakdet_split
from leakdet.storage.writer import SplitWriter

MIN_RECORDINGS = 16  # verified in each split; of a large one, every fiftieth
MAX_DIFFERENCE_DB = 0.125  # two steps of float16 at 100 dB; other recordings differ by whole dB


@dataclass(frozen=True)
class _MelDifference:
    """Largest difference in dB between a recording's stored mel and one computed from its audio."""

    split: StoreSplit
    sounds: list[Location | Excerpt]
    channels: Shaped[np.ndarray, " R"]
    log_mel: LogMel

    def __call__(self, row: int) -> float:
        at, end = self.split.recording_offsets[row : row + 2].tolist()
        largest = 0.0
        # block by block, so that a day of sound is never in memory whole
        channel = int(self.channels[row])
        for block in MelStream(self.sounds[row], self.log_mel, channel):
            fresh = block.mel.float().numpy()
            if at + len(fresh) > end:
                return math.inf
            stored = self.split.read(at, at + len(fresh)).astype(np.float32)
            largest = float(np.maximum(largest, np.abs(stored - fresh).max()))  # NaN stays NaN
            at += len(fresh)
        return largest if at == end else math.inf


def verify_mel(folder: Path, out: Path, log_mel: LogMel, full: bool, workers: int = 0) -> None:
    """Recompute the mel of a sample of each split in `folder`, or of all recordings if `full`.

    `out` is where the store will be published.
    """
    for name in SPLITS:
        file = folder / f"{name}.h5"
        if file.exists():
            split = open_leakdet_split(folder, name, [file])
            count = max(MIN_RECORDINGS, split.recordings // 50)
            rows = np.random.default_rng(0).permutation(split.recordings)
            chosen = np.sort(rows if full else rows[:count]).tolist()
            _verify_split(split, chosen, folder, out, log_mel, workers)


def _verify_split(
    split: StoreSplit, rows: list[int], folder: Path, out: Path, log_mel: LogMel, workers: int
) -> None:
    paths = [
        parse_location(str(path).replace(str(out), str(folder), 1)) for path in split.texts("path")
    ]
    sounds = list(map(excerpt, paths, split.spans()))
    difference = _MelDifference(split, sounds, split.numbers("channel", 0.0), log_mel)
    with ProgressCounter(f"verifying {split.name}", len(rows), "recordings") as progress:
        for row, difference_db in in_order(difference, rows, workers):
            progress.step()
            if not difference_db <= MAX_DIFFERENCE_DB:  # true for NaN too
                raise InputError(
                    f"{split.name}: the stored mel of {split.recording_ids[row]} is not that of "
                    f"its audio (off by {difference_db:.2f} dB). Nothing was published. Did the "
                    "audio change during the build? If not, this is a fault of leakdet: please "
                    "report it."
                )


@contextmanager
def explain_interruption(config: BuildConfig) -> Iterator[None]:
    """Say what is kept when Ctrl-C or a signal ends the work inside."""
    try:
        yield
    except (KeyboardInterrupt, Stopped):
        log_result(
            f"kept     {config.out}: nothing of this build, and what was there stays; the same "
            "command builds it anew"
        )
        raise


def build_store(config: BuildConfig, listed: Source | None = None) -> BuildReport:
    """Build `config.out` from `config.source`, atomically.

    `listed` are its recordings where the caller has read them.
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
            _check_apart(out, parse_location(config.source), source)
        report.remarks += [f"Labels: {line}." for line in (view.sentence(), *view.notes())]
        report.remarks += source.remarks
        if config.source == "demo" and not config.split.group_by:
            config = replace(config, split=replace(config.split, group_by=["site"]))
            report.remarks.append("The demo is split by site (split.group_by=[site]).")
        scan = scan_headers(source, config)
        config = _kept_together(config, scan, report)
        report.signal, report.left_out = scan.signal, scan.left_out
        report.remarks += scan.remarks
        report.label_names = sorted({recording.label for recording in scan.readable})
        report.leak_labels = [name for name in report.label_names if name in view.leaks]
        splits = assign_splits(scan.readable, config.split, report.leak_labels)
        report.divided_by = split_origin(scan.readable, config.split)
        assigned = list(zip(scan.readable, splits, strict=True))
        check_division(assigned, config.split, report.leak_labels)  # before any sound is decoded
        writers = open_writers(stack, folder, config, report, scan.readable, splits)
        need = build_bytes(assigned, scan.about_s, scan.signal, config)
        log_detail(f"space    {require_space(folder, need, f'out={config.out}')}")
        log_mel = LogMel(scan.signal)
        extract = Extractor(log_mel, config.waveform, folder, out)
        extract_all(assigned, writers, extract, report, config.workers)
        kept = {row.recording_id for writer in writers.values() for row in writer.rows}
        left = [pair for pair in assigned if pair[0].recording_id in kept]
        check_division(left, config.split, report.leak_labels)
        write_splits(writers, folder, config, report)
        if config.verify != "off":
            full = config.verify == "full"
            verify_mel(folder, out, log_mel, full, config.workers)
            which = "every recording" if full else "a sample of the recordings"
            report.remarks.append(f"Verified: the mel of {which} equals that of its audio.")
        write_build_files(folder, asdict(config), report)
        publish(folder, out)
    return report


def _check_apart(out: Path, source: Location, listed: Source) -> None:
    """Refuse to replace a store that holds what is to be read: it would be deleted with it."""
    target = os.path.realpath(out)
    for path in (source, *(recording.path for recording in listed.recordings)):
        if isinstance(path, Path) and f"{os.path.realpath(path)}/".startswith(f"{target}/"):
            raise InputError(
                f"out={out}: {path} lies in it and would be deleted with the store that is "
                "replaced. Give out= another name."
            )


def _kept_together(config: BuildConfig, scan: HeaderScan, report: BuildReport) -> BuildConfig:
    """The same settings, which keep the channels and the spans of a file together."""
    parts = [recording for recording in scan.readable if SOURCE_FILE in recording.groups]
    files = len({recording.path for recording in parts})
    if files == len(parts):
        return config
    kind = "span" if any(recording.span for recording in parts) else "channel"
    text = f"Every {kind} is a recording: {len(parts)} {kind}s of {files} files"
    if config.split.group_by:
        report.remarks.append(f"{text}.")
        return config
    report.remarks.append(f"{text}; a file lies in one split (split.group_by=[{SOURCE_FILE}]).")
    return replace(config, split=replace(config.split, group_by=[SOURCE_FILE]))


def _read_source(config: BuildConfig, folder: Path) -> Source:
    if config.source != "demo":
        return read_source(
            parse_location(config.source), by_channel=config.signal.channels == "each"
        )
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
    extract: Extractor,
    report: BuildReport,
    workers: int,
    stored: Sequence[StoredRecording] = (),
) -> None:
    """Fill the writers in the order of the source, without what is `stored` already."""
    duplicates = DuplicateFilter(writers, report, stored)
    recordings = [recording for recording, _ in assigned]
    with ProgressCounter("building", len(assigned), "recordings") as progress:
        results = in_order(extract, recordings, workers)
        for (recording, split), (_, extracted) in zip(assigned, results, strict=True):
            progress.step()
            if isinstance(extracted, LeftOut):
                report.left_out.append(extracted)
                continue
            with closing(extracted):
                row = extracted.row
                if duplicates.admit(recording, row.content_sha256, split):
                    writers[split].add(row, extracted.mel, extracted.sound)
