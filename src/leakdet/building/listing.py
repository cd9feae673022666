"""Lists what a source of `build` holds, without opening a recording."""

from pathlib import Path

from leakdet.acoustics.listing import AUDIO_SUFFIXES, is_audio_name
from leakdet.building.sources import (
    LeftOut,
    Source,
    from_folders,
    from_manifest,
    from_remote_folders,
)
from leakdet.core.errors import InputError
from leakdet.core.locations import Location, RemoteFile, with_location

TAKES = "source= takes a folder of label folders, a CSV manifest, or demo."


def read_source(path: Location, by_channel: bool = False) -> Source:
    """List the recordings of a folder or CSV manifest, also behind a URL, without opening them.

    With `by_channel`, rows of a manifest may name one channel of a file.
    """
    require_source(path)
    if (is_table := _is_file(path)) and is_audio_name(path):
        raise InputError(f"{path}: this is a recording. {TAKES}")
    if is_table:
        source = from_manifest(path, by_channel)
    elif isinstance(path, RemoteFile):
        source = from_remote_folders(path)
    elif path.is_dir():
        source = from_folders(path)
    else:
        raise InputError(
            f"{path}: this is a pipe, device or socket, and a table is read more than once. Write "
            "it to a file, and name that file."
        )
    if not source.recordings:
        raise InputError(_nothing(path, source.left_out, is_table))
    return source


def _is_file(path: Location) -> bool:
    if isinstance(path, Path):
        return path.is_file()
    try:  # web servers tell of no folders, and list what lies below them
        return not path.is_folder() and not path.names()
    except InputError as error:
        raise with_location(path, error, "source=") from error


def require_source(path: Location) -> None:
    """Raise `InputError` where there is nothing at `path`, or a URL cannot be reached."""
    try:
        is_there = path.exists()
    except InputError as error:
        raise with_location(path, error, "source=") from error
    if not is_there:
        raise InputError(f"{path}: no such file or folder. {TAKES}")


def _nothing(path: Location, left_out: list[LeftOut], is_table: bool) -> str:
    if left_out:
        first = left_out[0]
        return (
            f"{path}: no recordings found; {len(left_out)} left out, the first: "
            f"{first.path}: {first.reason}."
        )
    if is_table:
        return (
            f"{path}: no recordings found: it has a heading and no rows. Add a row for each "
            "recording, with its path and label."
        )
    return (
        f"{path}: no recordings found. Expected audio ({' '.join(sorted(AUDIO_SUFFIXES))}) "
        "in folders named by label."
    )
