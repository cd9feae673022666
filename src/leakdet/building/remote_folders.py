"""Sources of `build` that are folders behind a URL: by label, or by split and label."""

from pathlib import PurePosixPath

from leakdet._remote import RemoteFile, named
from leakdet.acoustics.audio_listing import LeftUnlisted, audio_files
from leakdet.building.label_folders import left_out_of
from leakdet.building.sources import (
    SOUND_BESIDE_SPLITS,
    LeftOut,
    Source,
    SourceRecording,
    groups_of_name,
    printable,
    split_folders,
)
from leakdet.errors import InputError


def from_remote_folders(root: RemoteFile) -> Source:
    """List the recordings below `root`, in the order and with the names of a local folder.

    Raises:
        InputError: it cannot be listed, or has sound beside its split folders.
    """
    unlisted, start = LeftUnlisted(), len(root.key.parts)
    files = {file.key.parts[start:]: file for file in audio_files(root, unlisted)}
    splits, beside = split_folders({parts[0] for parts in files if len(parts) > 1})
    if beside:
        raise named(root / beside[0], InputError(SOUND_BESIDE_SPLITS))
    depth = 2 if splits else 1  # folders above a recording: of a split and a label, or of a label
    recordings, strays = [], []
    for parts, file in sorted(files.items()):
        identity = printable(PurePosixPath(*parts).as_posix())
        if len(parts) > depth:
            split = splits.get(parts[0])
            label = printable(parts[depth - 1])
            groups = groups_of_name(file)
            recordings.append(SourceRecording(identity, file, label, split, groups=groups))
        else:
            strays.append(LeftOut(printable(str(file)), "not in a label folder"))
    return Source(recordings, [*strays, *left_out_of(root, unlisted)], unlisted.notes())
