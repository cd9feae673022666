"""Surrogates of a store's leak recordings, in a file beside train that only training reads.

They are no recordings: scores, audits and cross-validation open train, val and test alone.
"""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

from leakdet.building.extraction import Extractor
from leakdet.building.report import BuildReport
from leakdet.building.sources import LeftOut, SourceRecording
from leakdet.config import BuildConfig
from leakdet.core.parallel import in_order
from leakdet.core.progress import ProgressCounter
from leakdet.storage.opening import SURROGATES
from leakdet.storage.writer import SplitWriter


def write_surrogates(
    recordings: Sequence[SourceRecording],
    train: SplitWriter,
    extract: Extractor,
    config: BuildConfig,
    report: BuildReport,
) -> None:
    """Write `config.surrogates` surrogates of each leak recording that is in train."""
    leaks = {row.recording_id for row in train.rows if row.label in report.leak_labels}
    surrogates = [
        replace(
            recording,
            recording_id=f"{recording.recording_id}#surrogate{number}",
            surrogate_of=recording.recording_id,
        )
        for recording in recordings
        if recording.recording_id in leaks
        for number in range(1, config.surrogates + 1)
    ]
    writer = SplitWriter(
        train.folder,
        SURROGATES,
        report.signal,
        config.waveform,
        config.split.group_by,
        train.columns,
    )
    with ExitStack() as stack:
        stack.callback(writer.discard)
        _extract_into(writer, surrogates, extract, config.workers)
        report.surrogates = len(writer.rows)
        path = train.folder / f"{SURROGATES}.h5"
        writer.write(path, report.label_names, report.leak_labels, config.compression)


def _extract_into(
    writer: SplitWriter, surrogates: Sequence[SourceRecording], extract: Extractor, workers: int
) -> None:
    with ProgressCounter("surrogates", len(surrogates), "recordings") as progress:
        for _, extracted in in_order(extract, surrogates, workers):
            progress.step()
            if not isinstance(extracted, LeftOut):
                with closing(extracted):
                    writer.add(extracted.row, extracted.mel, extracted.sound)
