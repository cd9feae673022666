"""The confirmed recordings that are to be learnt, from a table, a folder by label, or a store."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from leakdet.building.label_folders import from_folders
from leakdet.building.manifest import NO_LABEL, from_manifest
from leakdet.building.sources import LeftOut, Source, SourceRecording
from leakdet.errors import SettingsError
from leakdet.learning.vocabulary import Vocabulary


@dataclass(frozen=True)
class Confirmed:
    """The recordings with a label, in the store's words, and those without one.

    `unconfirmed` counts the latter; `unverified` lists them where they are wanted.
    """

    source: Source
    unconfirmed: int = 0
    unverified: list[SourceRecording] = field(default_factory=list)


def read_confirmed(
    path: Path, vocabulary: Vocabulary, by_channel: bool = False, with_unverified: bool = False
) -> Confirmed:
    """List the confirmed recordings of a table or a folder by label, without opening them.

    Rows without a label are counted, and listed if asked for; rows of predict are welcome.

    Raises:
        InputError: the source cannot be read, or a label means nothing here.
    """
    if path.is_dir():
        listed = from_folders(path)
    else:
        listed = from_manifest(path, by_channel, NO_LABEL if with_unverified else "")
    left_out = [row for row in listed.left_out if row.reason != NO_LABEL]
    kept: list[SourceRecording] = []
    unverified: list[SourceRecording] = []
    for recording in listed.recordings:
        if recording.label == NO_LABEL:
            unverified.append(recording)
            continue
        name = vocabulary.name_of(recording.label, f"{path}, {recording.recording_id}")
        if name is None:
            reason = f"recordings labelled {recording.label} are left out of training"
            left_out.append(LeftOut(recording.recording_id, reason))
            continue
        kept.append(replace(recording, label=name, split="train"))
    unconfirmed = len(unverified) + sum(row.reason == NO_LABEL for row in listed.left_out)
    return Confirmed(Source(kept, left_out, listed.remarks), unconfirmed, unverified)


def require_both_classes(
    labels: Iterable[str], vocabulary: Vocabulary, fewest: int, where: str
) -> None:
    """Refuse to learn from too few recordings of a class, or from one class alone.

    Raises:
        SettingsError: with the counts and the reason.
    """
    listed = list(labels)
    leaks = sum(label in vocabulary.leaks for label in listed)
    others = len(listed) - leaks
    if min(leaks, others) >= fewest:
        return
    raise SettingsError(
        f"{where}: {leaks} confirmed with a leak and {others} without; learning needs at least "
        f"{fewest} of each (learn.min_per_class): from fewer, or from one class alone, a model "
        "learns the places and not the leak. Confirm more, quiet places too."
    )
