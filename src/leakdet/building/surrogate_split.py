"""Surrogates of a store's leak recordings: a file of their own beside train, which nothing but training reads.

They are no recordings: every count, score, audit and cross-validation opens train, val and test, and never meets one.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from leakdet._parallel import in_order
from leakdet._progress import Advance
from leakdet.building.extraction import Hearing
from leakdet.building.sources import LeftOut, SourceRecording
from leakdet.storage.writer import SplitWriter


def hear_surrogates(
    recordings: Sequence[SourceRecording],
    writer: SplitWriter,
    work: Hearing,
    each: int,
    workers: int,
) -> None:
    """Fill the writer with `each` surrogates of every one of `recordings`, which were heard before and are in train."""
    made = [
        replace(
            recording,
            recording_id=f"{recording.recording_id}#surrogate{number}",
            surrogate_of=recording.recording_id,
        )
        for recording in recordings
        for number in range(1, each + 1)
    ]
    with Advance("surrogates", len(made), "recordings") as progress:
        for _, heard in in_order(work, made, workers):
            progress.step()
            if not isinstance(heard, LeftOut):
                with closing(heard):
                    writer.add(heard.row, heard.mel, heard.sound)
