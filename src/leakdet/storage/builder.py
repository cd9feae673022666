"""Building a store: read every recording once, cut it, write its log-mel, check it, publish all of it or nothing."""

import csv
import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import leakdet
from leakdet._parallel import in_order
from leakdet._progress import Advance
from leakdet.acoustics.audio import read_header
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.synth import write_demo
from leakdet.config import BuildConfig, SignalConfig
from leakdet.errors import InputError
from leakdet.storage.hearing import Hearing
from leakdet.storage.publishing import check_free, publish, workplace
from leakdet.storage.sources import LeftOut, Source, SourceRecording, read_source
from leakdet.storage.splits import assign_splits, check_both_classes, leak_name
from leakdet.storage.store import SPLITS
from leakdet.storage.store_writer import RecordingRow, SplitWriter
from leakdet.storage.surrogate_split import SURROGATES, hear_surrogates
from leakdet.storage.verifying import verify


@dataclass
class BuildReport:
    """What a build did: rows as they are in recordings.csv, what was left out, and remarks for the reader."""

    out: Path
    signal: SignalConfig
    label_names: list[str]
    leak_label: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    surrogates: int = 0  # in a file of their own, beside the recordings


def build_store(config: BuildConfig) -> BuildReport:
    """Build `config.out` from `config.source`; nothing is there under that name until all of it is.

    Raises:
        InputError: see `read_source`, `assign_splits`; or `out` exists, or verification failed.
    """
    out = Path(config.out).absolute()
    part = config.shard_part
    suffix = ""
    if part:
        out = out.parent / f"{out.name}.shard-{part[0]}-of-{part[1]}"
        suffix = f"-{part[0]:05d}-of-{part[1]:05d}"
    check_free(out, config.overwrite)
    with ExitStack() as stack:
        folder = stack.enter_context(workplace(out))
        source, remarks = _source(config, folder)
        readable, left_out, signal, header_remarks = _scan(source, config)
        log_mel = LogMel(signal)
        names = sorted({recording.label for recording in readable})
        leak = leak_name(names, config.labels.leak, config.source)
        splits = assign_splits(readable, config.split, leak)
        report = BuildReport(out, signal, names, leak, left_out=left_out, remarks=remarks + header_remarks)
        writers = {
            name: SplitWriter(folder, name, signal, config.waveform, config.split.group_by)
            for name in sorted(set(splits), key=SPLITS.index)
        }
        for writer in writers.values():
            stack.callback(writer.discard)
        given = readable[0].split is not None
        if part:  # splits, vocabulary and fmax are those of the whole source; only the hearing is shared out
            readable, splits = readable[part[0] :: part[1]], splits[part[0] :: part[1]]
        work = Hearing(log_mel, config.waveform, folder, Path(config.out).absolute())
        _hear_all(readable, splits, writers, work, config, report)
        if not part:
            kept = [(name, row.label) for name, writer in writers.items() for row in writer.rows]
            check_both_classes(kept, config.split, leak, given)
        if config.surrogates:
            _write_surrogates(stack, readable, writers["train"], work, config, report, suffix)
        write_splits(writers, folder, config, report, suffix)
        if config.verify != "off":
            verify(folder, out, log_mel, config.verify == "full", config.workers, suffix)
            heard = "every recording" if config.verify == "full" else "a sample of the recordings"
            report.remarks.append(
                f"Verified: the mel of {heard} was recomputed from the audio and equals what is stored."
            )
        describe(folder, config, report)
        publish(folder, out)
    return report


def write_splits(
    writers: dict[str, SplitWriter], folder: Path, config: BuildConfig, report: BuildReport, suffix: str = ""
) -> None:
    """Write the HDF5 files and add their rows to the report."""
    for name, writer in writers.items():
        report.rows += [_csv_row(name, row) for row in writer.rows]
        path = folder / f"{name}{suffix}.h5"
        writer.write(path, report.label_names, report.leak_label, config.compression)


def describe(folder: Path, config: BuildConfig, report: BuildReport) -> None:
    """Write recordings.csv and build.json."""
    _write_recordings_csv(folder / "recordings.csv", report.rows)
    _write_build_json(folder / "build.json", config, report)


# ------------------------------------------------------------------------------------------------ what goes in


def _source(config: BuildConfig, folder: Path) -> tuple[Source, list[str]]:
    if config.source != "demo":
        return read_source(Path(config.source)), []
    if config.shard:
        raise InputError("source=demo: it is synthesised whole; build it without shard=.")
    count = config.demo.sites * config.demo.recordings_per_site
    with Advance("synthesising", count, "recordings") as progress:
        manifest = write_demo(folder, config.demo, lambda done, total: progress.step(done - progress.done))
    remarks = []
    if not config.split.group_by:
        config.split = replace(config.split, group_by=["site"])
        remarks.append("The demo is split by site (split.group_by=[site]).")
    return read_source(manifest), remarks


def _scan(
    source: Source, config: BuildConfig
) -> tuple[list[SourceRecording], list[LeftOut], SignalConfig, list[str]]:
    """Read every header: leave out what is no audio before splits are made, and find the highest frequency all can have."""
    readable: list[SourceRecording] = []
    left_out = list(source.left_out)
    rates: set[int] = set()
    seen: set[Path] = set()
    with Advance("reading headers", len(source.recordings), "files") as progress:
        for recording, outcome in in_order(_header_rate, source.recordings, config.workers):
            progress.step()
            if isinstance(outcome, InputError):
                left_out.append(LeftOut(recording.recording_id, str(outcome)))
            elif recording.path in seen:
                left_out.append(LeftOut(recording.recording_id, "listed twice"))
            else:
                seen.add(recording.path)
                readable.append(recording)
                rates.add(outcome)
    if not readable:
        raise InputError(
            f"{config.source}: none of {len(source.recordings)} files is readable audio; first: {left_out[0].reason}"
        )
    signal = config.signal
    remarks = []
    if signal.fmax_hz == "auto":
        fmax_hz = min(signal.sample_rate_hz, *rates) / 2
        signal = replace(signal, fmax_hz=fmax_hz)
        remarks.append(
            f"fmax_hz=auto became {fmax_hz:g} Hz: half of the lowest rate among {sorted(rates)} and the signal's own."
        )
    return readable, left_out, signal, remarks


def _header_rate(recording: SourceRecording) -> int | InputError:
    try:
        return read_header(recording.path).source_rate_hz
    except InputError as error:
        return error


# ------------------------------------------------------------------------------------------------ hearing


def _hear_all(
    recordings: list[SourceRecording],
    splits: list[str],
    writers: dict[str, SplitWriter],
    work: Hearing,
    config: BuildConfig,
    report: BuildReport,
) -> None:
    """Fill the writers in the source's order."""
    split_of = {recording.recording_id: split for recording, split in zip(recordings, splits, strict=True)}
    known = KnownContent(writers, report)
    with Advance("building", len(recordings), "recordings") as progress:
        for recording, heard in in_order(work, recordings, config.workers):
            progress.step()
            if isinstance(heard, LeftOut):
                report.left_out.append(heard)
                continue
            with closing(heard):
                split = split_of[recording.recording_id]
                if known.is_new(recording, heard.row.content_sha256, split):
                    writers[split].add(heard.row, heard.window_start_s, heard.mel, heard.sound)


def _write_surrogates(
    stack: ExitStack,
    recordings: Sequence[SourceRecording],
    train: SplitWriter,
    work: Hearing,
    config: BuildConfig,
    report: BuildReport,
    suffix: str,
) -> None:
    """Surrogates of the leak recordings that train kept, in a file of their own."""
    leaks = {row.recording_id for row in train.rows if row.label == report.leak_label}
    heard = [recording for recording in recordings if recording.recording_id in leaks]
    writer = SplitWriter(work.folder, SURROGATES, report.signal, config.waveform, config.split.group_by)
    stack.callback(writer.discard)
    hear_surrogates(heard, writer, work, config.surrogates, config.workers)
    report.surrogates = len(writer.rows)
    path = work.folder / f"{SURROGATES}{suffix}.h5"
    writer.write(path, report.label_names, report.leak_label, config.compression)


@dataclass
class KnownContent:
    """What was heard already: the same sound twice is kept once, the same sound under two labels not at all."""

    writers: dict[str, SplitWriter]
    report: BuildReport
    first_copy: dict[str, tuple[str, SourceRecording]] = field(default_factory=dict)
    contradictory: set[str] = field(default_factory=set)

    def is_new(self, recording: SourceRecording, content: str, split: str) -> bool:
        first_split, first = self.first_copy.setdefault(content, (split, recording))
        if first is recording:
            return True
        if first.label == recording.label and content not in self.contradictory:
            self._leave_out(recording, f"the same sound as {first.recording_id}")
            return False
        self._leave_out(recording, _contradiction(recording, first))
        if content not in self.contradictory:
            self.contradictory.add(content)
            self.writers[first_split].remove(first.recording_id)
            self._leave_out(first, _contradiction(first, recording))
        return False

    def _leave_out(self, recording: SourceRecording, reason: str) -> None:
        self.report.left_out.append(LeftOut(recording.recording_id, reason))


def _contradiction(recording: SourceRecording, other: SourceRecording) -> str:
    return f"the same sound as {other.recording_id} ({other.label}), but labelled {recording.label}"


# ------------------------------------------------------------------------------------------------ checking and describing


def _csv_row(split: str, row: RecordingRow) -> dict[str, Any]:
    values = asdict(row)
    groups = values.pop("groups")
    for name in ("mel_crc32", "surrogate_of"):
        values.pop(name)
    head = {
        "recording_id": values.pop("recording_id"),
        "split": split,
        "label": values.pop("label"),
        "path": values.pop("path"),
    }
    return {**head, **groups, **values, "flags": ",".join(row.flags)}


def _write_recordings_csv(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    rows = list(rows)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)


def _write_build_json(path: Path, config: BuildConfig, report: BuildReport) -> None:
    content = {
        "created_by": f"leakdet {leakdet.__version__}",
        "settings": asdict(config),
        "signal": asdict(report.signal),
        "signal_hash": report.signal.hash,
        "label_names": report.label_names,
        "leak_label": report.leak_label,
        "recordings": len(report.rows),
        "surrogates": report.surrogates,
        "left_out": [asdict(item) for item in report.left_out],
        "remarks": report.remarks,
    }
    path.write_text(json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8")
