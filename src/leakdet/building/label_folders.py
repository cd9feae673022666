"""Sources of `build` that are folders: label folders, or split folders with label folders."""

import os
from collections.abc import Iterator
from pathlib import Path

from leakdet._remote import RemoteFile
from leakdet.acoustics.audio_listing import LeftUnlisted, audio_files
from leakdet.acoustics.file_kinds import LOST, is_audio_name, is_hidden
from leakdet.building.sources import (
    SOUND_BESIDE_SPLITS,
    LeftOut,
    Source,
    SourceRecording,
    groups_of_name,
    printable,
    split_folders,
)
from leakdet.errors import InputError, counted


def from_folders(root: Path) -> Source:
    """List the recordings below `root`; a folder's name is the label of what it holds.

    Raises:
        InputError: `root` cannot be read, or has sound beside its split folders.
    """
    unlisted = LeftUnlisted()
    folders = _subfolders(root, unlisted)
    splits, beside = split_folders(folder.name for folder in folders)
    for name in beside:
        if any(audio_files(root / name, LeftUnlisted())):
            raise InputError(f"{root / name}: {SOUND_BESIDE_SPLITS}")
    split_of: dict[Path, str | None] = {root / name: split for name, split in splits.items()}
    split_of = split_of or {root: None}  # label folders
    strays = [
        LeftOut(printable(str(path)), "not in a label folder")
        for parent in dict.fromkeys([root, *split_of])
        for path in _strays(parent, unlisted)
    ]
    recordings = [
        recording
        for parent, split in split_of.items()
        for folder in (folders if parent == root else _subfolders(parent, unlisted))
        for recording in _label_folder(root, folder, split, unlisted)
    ]
    return Source(recordings, [*strays, *left_out_of(root, unlisted)], unlisted.notes())


def _subfolders(folder: Path, unlisted: LeftUnlisted) -> list[Path]:
    try:
        names = sorted(folder.iterdir())
        paths = [path for path in names if os.path.isdir(path)]  # noqa: PTH112  Path's may raise
    except OSError as error:
        raise InputError(f"{folder}: the folder cannot be read ({error.strerror}).") from error
    for path in names:
        if path.is_symlink() and path not in paths and not is_hidden(path.name):
            unlisted.add_odd(path)
    unlisted.hidden += sum(is_hidden(path.name) for path in paths)
    return [path for path in paths if not is_hidden(path.name)]


def _strays(folder: Path, unlisted: LeftUnlisted) -> Iterator[Path]:
    """The sound that lies in no label folder."""
    for path in sorted(folder.iterdir()):
        if not path.is_file() or is_hidden(path.name):
            continue
        if is_audio_name(path):
            yield path
        else:
            unlisted.add_other(path)


def _label_folder(
    root: Path, folder: Path, split: str | None, unlisted: LeftUnlisted
) -> Iterator[SourceRecording]:
    label = printable(folder.name)
    for path in sorted(audio_files(folder, unlisted)):
        identity = printable(path.relative_to(root).as_posix())
        yield SourceRecording(identity, path, label, split, groups=groups_of_name(path))


def left_out_of(root: Path | RemoteFile, unlisted: LeftUnlisted) -> Iterator[LeftOut]:
    """What a walk over a folder left out, for the report of the build."""
    for folder, why in unlisted.unreadable:
        yield LeftOut(printable(folder), f"the folder cannot be read ({why})")
    for path, what in unlisted.odd:
        yield LeftOut(printable(path), what)
    for (kind, suffix), count in sorted(unlisted.kinds.items()):
        files = counted(count, "file")
        what, remedy = LOST[kind]
        pattern = f"*{suffix}" if suffix.startswith(".") else f"* {suffix}"
        told = f"{files} {what}; {remedy}"
        yield LeftOut(printable(f"{root}/**/{pattern}"), told)
