"""Building a store: read every recording once, cut it, write its log-mel, check it, publish all of it or nothing."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from leakdet._parallel import in_order
from leakdet._progress import Advance
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.synth import write_demo
from leakdet.building.build_report import BuildReport, describe, write_splits
from leakdet.building.extraction import Hearing
from leakdet.building.header_scan import scan
from leakdet.building.mel_verification import verify
from leakdet.building.sources import LeftOut, Source, SourceRecording, read_source
from leakdet.building.splits import assign_splits, check_both_classes
from leakdet.building.surrogate_split import hear_surrogates
from leakdet.config import BuildConfig
from leakdet.detection.labels import find_leak_label
from leakdet.errors import InputError
from leakdet.storage.atomic import check_free, publish, workplace
from leakdet.storage.opening import SURROGATES
from leakdet.storage.store import SPLITS
from leakdet.storage.writer import SplitWriter


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
        readable, left_out, signal, header_remarks = scan(source, config)
        log_mel = LogMel(signal)
        names = sorted({recording.label for recording in readable})
        leak = find_leak_label(names, config.labels.leak, config.source)
        splits = assign_splits(readable, config.split, leak)
        report = BuildReport(
            out, signal, names, leak, left_out=left_out, remarks=remarks + header_remarks
        )
        columns = _columns(readable, splits)
        writers = {
            name: SplitWriter(
                folder, name, signal, config.waveform, config.split.group_by, columns[name]
            )
            for name in sorted(set(splits), key=SPLITS.index)
        }
        for writer in writers.values():
            stack.callback(writer.discard)
        given = readable[0].split is not None
        # splits, vocabulary and fmax are those of the whole source; only the hearing is shared out
        if part:
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
        describe(folder, asdict(config), report)
        publish(folder, out)
    return report


def _source(config: BuildConfig, folder: Path) -> tuple[Source, list[str]]:
    if config.source != "demo":
        return read_source(Path(config.source)), []
    if config.shard:
        raise InputError("source=demo: it is synthesised whole; build it without shard=.")
    count = config.demo.sites * config.demo.recordings_per_site
    with Advance("synthesising", count, "recordings") as progress:
        manifest = write_demo(
            folder, config.demo, lambda done, total: progress.step(done - progress.done)
        )
    remarks = []
    if not config.split.group_by:
        config.split = replace(config.split, group_by=["site"])
        remarks.append("The demo is split by site (split.group_by=[site]).")
    return read_source(manifest), remarks


def _columns(recordings: Sequence[SourceRecording], splits: Sequence[str]) -> dict[str, list[str]]:
    """The group columns of each split of the whole source: every shard of a split has all of them."""
    found: dict[str, set[str]] = {name: set() for name in splits}
    for recording, name in zip(recordings, splits, strict=True):
        found[name] |= recording.groups.keys()
    return {name: sorted(columns) for name, columns in found.items()}


def _hear_all(
    recordings: list[SourceRecording],
    splits: list[str],
    writers: dict[str, SplitWriter],
    work: Hearing,
    config: BuildConfig,
    report: BuildReport,
) -> None:
    """Fill the writers in the source's order."""
    split_of = {
        recording.recording_id: split for recording, split in zip(recordings, splits, strict=True)
    }
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
                    writers[split].add(heard.row, heard.mel, heard.sound)


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
    writer = SplitWriter(
        work.folder,
        SURROGATES,
        report.signal,
        config.waveform,
        config.split.group_by,
        train.columns,
    )
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
