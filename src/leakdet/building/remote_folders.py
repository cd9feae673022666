"""Sources of `build` that are folders behind a URL: by label, or by split and label."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from leakdet._remote import RemoteFile, named
from leakdet.acoustics.audio_listing import LeftUnlisted, audio_files
from leakdet.building.label_folders import left_out_of
from leakdet.building.sources import (
    SPLIT_NAMES,
    LeftOut,
    Source,
    SourceRecording,
    groups_of_name,
    printable,
)
from leakdet.errors import InputError


def from_remote_folders(root: RemoteFile) -> Source:
    """List the recordings below `root`, in the order and with the names of a local folder.

    Raises:
        InputError: it cannot be listed, or has sound beside its split folders.
    """
    unlisted, start = LeftUnlisted(), len(root.key.parts)
    files = {file.key.parts[start:]: file for file in audio_files(root, unlisted)}
    depth = _folders_above(root, list(files))
    recordings, strays = [], []
    for parts, file in sorted(files.items()):
        identity = printable(PurePosixPath(*parts).as_posix())
        if len(parts) > depth:
            split = SPLIT_NAMES[parts[0].casefold()] if depth == 2 else None
            label = printable(parts[depth - 1])
            groups = groups_of_name(file)
            recordings.append(SourceRecording(identity, file, label, split, groups=groups))
        else:
            strays.append(LeftOut(printable(str(file)), "not in a label folder"))
    return Source(recordings, [*strays, *left_out_of(root, unlisted)], unlisted.notes())


def _folders_above(root: RemoteFile, files: Sequence[tuple[str, ...]]) -> int:
    """Folders above a recording: 1 where they are named by label, 2 by split and then label."""
    folders = sorted({parts[0] for parts in files if len(parts) > 1})
    splits = {folder: SPLIT_NAMES.get(folder.casefold()) for folder in folders}
    if not {"train", "test"} <= {*splits.values()}:
        return 1 if not splits or None in splits.values() else 2
    for folder, split in splits.items():
        if split is None:
            raise named(
                root / folder,
                InputError(
                    "a folder with sound beside the folders train, val and test. Move it away, or "
                    "into one of them as a label"
                ),
            )
    return 2
