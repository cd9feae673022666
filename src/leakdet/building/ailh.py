"""Converts an AILH store: the same mel, with ids and checksums, without its known faults."""

import hashlib
import math
from contextlib import ExitStack
from dataclasses import asdict
from io import BytesIO
from pathlib import Path

import numpy as np

from leakdet.building.extraction import DuplicateFilter
from leakdet.building.report import BuildReport, write_build_files, write_splits
from leakdet.building.sources import LeftOut, SourceRecording
from leakdet.building.splits import check_both_classes
from leakdet.config import BuildConfig, SignalConfig
from leakdet.core.errors import InputError
from leakdet.core.files import check_free, publish, staged_folder
from leakdet.core.progress import ProgressCounter
from leakdet.storage.opening import open_split, split_names
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import labelled, view_of_all
from leakdet.storage.writer import RecordingRow, SplitWriter


def convert_store(config: BuildConfig) -> BuildReport:
    """Copy the splits of the AILH store `config.source` to `config.out`, mel unchanged to the bit.

    Left out are rows whose mel is constant (audio that could not be read) or not finite, and rows
    that repeat another row's mel; of these the copy in train is kept, so that val and test hold
    nothing that was trained on.
    """
    source, out = Path(config.source).absolute(), Path(config.out).absolute()
    check_free(out, config.overwrite)
    found = [open_split(source, name) for name in split_names(source)]
    signal, remark = _signal(found, config.signal)
    _check_label_names(found)
    splits = [labelled(split, config.labels) for split in found]
    view = view_of_all(splits)
    told = [f"Labels: {line}." for line in (view.sentence(), *view.notes())]
    report = BuildReport(out, signal, list(view.names), list(view.leaks), remarks=[remark, *told])
    with ExitStack() as stack:
        folder = stack.enter_context(staged_folder(out))
        writers = {split.name: SplitWriter(folder, split.name, signal) for split in splits}
        for writer in writers.values():
            stack.callback(writer.discard)
        duplicates = DuplicateFilter(writers, report)
        for split in splits:
            _convert(split, signal, writers[split.name], duplicates, report)
        kept = [(name, row.label) for name, writer in writers.items() for row in writer.rows]
        check_both_classes(kept, config.split, report.leak_labels, given=True)
        write_splits(writers, folder, config, report)
        write_build_files(folder, asdict(config), report)
        publish(folder, out)
    return report


def _signal(splits: list[StoreSplit], given: SignalConfig) -> tuple[SignalConfig, str]:
    """The signal settings of the mel, and a remark on where they come from."""
    first = splits[0]
    for split in splits[1:]:
        if split.signal != first.signal or split.mel.shape[1:] != first.mel.shape[1:]:
            raise InputError(
                f"{split.files[0]}: its signal settings differ from those of "
                f"{first.files[0].name}; convert them apart."
            )
    if first.signal is not None:
        return first.signal, "The signal settings are those of the AILH files."
    if given.mel_shape == first.mel.shape[1:] and not isinstance(given.fmax_hz, str):
        remark = "the signal settings are those given, which fit the shape of the mel."
        return given, f"{first.signal_unknown}: {remark}"
    raise InputError(
        f"{first.files[0]}: {first.signal_unknown}, and the given signal makes windows of "
        f"{given.mel_shape} where the file has {first.mel.shape[1:]}. Give the settings it was "
        "made with (signal=ailh, signal.n_mels=..., signal.fmax_hz=...), or train on it as it is."
    )


def _check_label_names(splits: list[StoreSplit]) -> None:
    """Refuse splits of different vocabularies."""
    first = splits[0]
    for split in splits[1:]:
        if list(map(str.casefold, split.label_names)) != list(map(str.casefold, first.label_names)):
            raise InputError(
                f"{split.files[0]}: its labels {split.label_names} are not those of "
                f"{first.files[0].name}: {first.label_names}."
            )


def _convert(
    split: StoreSplit,
    signal: SignalConfig,
    writer: SplitWriter,
    duplicates: DuplicateFilter,
    report: BuildReport,
) -> None:
    names = report.label_names
    with ProgressCounter(f"converting {split.name}", split.recordings, "recordings") as progress:
        for index in range(split.recordings):
            progress.step()
            low, high = split.recording_offsets[index : index + 2].tolist()
            mel = split.read(low, high)
            identity = str(split.recording_ids[index])
            if reason := _fault(mel):
                report.left_out.append(LeftOut(identity, reason))
                continue
            label = names[split.label_id[index]]
            recording = SourceRecording(identity, split.files[0], label, split.name)
            content = hashlib.sha256(mel.tobytes()).hexdigest()
            if duplicates.admit(recording, content, split.name):
                row = _row(recording, signal, content, len(mel))
                writer.add(row, BytesIO(mel.tobytes()), None)


def _fault(mel: np.ndarray) -> str | None:
    """The reason why a recording with this mel cannot be used, or None."""
    if not np.isfinite(mel).all():
        return "its mel holds NaN or infinite values"
    if mel.min() == mel.max():
        return f"its mel is {float(mel.min()):g} throughout: its audio was never read"
    return None


def _row(
    recording: SourceRecording, signal: SignalConfig, content: str, windows: int
) -> RecordingRow:
    """The row of a recording; what only its audio could tell is NaN."""
    samples = signal.window_samples + (windows - 1) * signal.window_hop_samples
    return RecordingRow(
        recording_id=recording.recording_id,
        path=str(recording.path),
        label=recording.label,
        groups={},
        weight=1.0,
        content_sha256=content,
        duration_s=samples / signal.sample_rate_hz,
        source_rate_hz=signal.sample_rate_hz,
        rms_dbfs=math.nan,
        dc_offset=math.nan,
        clipped_fraction=math.nan,
        flags=["converted"],
        windows=windows,
        mel_crc32=0,
    )
