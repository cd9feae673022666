"""The labels of a source under the label settings, before its recordings are read."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from leakdet._remote import RemoteFile
from leakdet.building.sources import LeftOut, Source, SourceRecording
from leakdet.config import LabelsConfig
from leakdet.detection.label_view import LabelView, label_view


def relabelled(
    source: Source, labels: LabelsConfig, where: str, known: Sequence[str] = ()
) -> tuple[Source, LabelView]:
    """The recordings under their new labels, without those that are left out, and the view.

    Of several spellings of a label that in `known`, the labels of a store that there is, or else
    the most frequent one is kept. Raises `InputError` as
    `label_view` does.
    """
    found = [recording.label for recording in source.recordings]
    by_frequency = sorted(Counter(found).items(), key=lambda item: (-item[1], item[0]))
    view = label_view([*known, *(label for label, _ in by_frequency)], labels, where).counting(
        found
    )
    view = replace(view, names=tuple(sorted(view.names)), leaks=tuple(sorted(view.leaks)))
    recordings = [
        replace(recording, label=name)
        for recording in source.recordings
        if (name := view.name_of_label[recording.label]) is not None
    ]
    return _one_label_each(Source(recordings, source.left_out, source.remarks)), view


def _one_label_each(source: Source) -> Source:
    """Leave out files that are listed with two labels; one listed twice alike is left out later."""
    labels: defaultdict[tuple[Path | RemoteFile, int], set[str]] = defaultdict(set)
    channels: defaultdict[Path | RemoteFile, set[int]] = defaultdict(set)
    for recording in source.recordings:
        labels[recording.path, recording.channel].add(recording.label)
        channels[recording.path].add(recording.channel)
    kept: list[SourceRecording] = []
    left_out = list(source.left_out)
    for recording in source.recordings:
        others = sorted(labels[recording.path, recording.channel])
        if len(others) > 1:
            reason = f"listed with the labels {' and '.join(others)}"
        elif 0 in channels[recording.path] and len(channels[recording.path]) > 1:
            reason = "listed both whole and by channel"
        else:
            kept.append(recording)
            continue
        left_out.append(LeftOut(recording.recording_id, reason))
    return Source(kept, left_out, source.remarks)
