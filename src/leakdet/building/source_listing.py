"""Lists what a source of `build` holds, without opening a recording."""

from pathlib import Path

from leakdet._remote import RemoteFile, named
from leakdet.acoustics.file_kinds import AUDIO_SUFFIXES
from leakdet.building.label_folders import from_folders
from leakdet.building.manifest import from_manifest
from leakdet.building.remote_folders import from_remote_folders
from leakdet.building.sources import LeftOut, Source
from leakdet.errors import InputError


def read_source(path: Path | RemoteFile, by_channel: bool = False) -> Source:
    """List the recordings of a folder or CSV manifest, without opening them.

    With `by_channel`, rows of a manifest may name one channel of a file.

    Raises:
        InputError: the source is missing, cannot be read, or gives no recording.
    """
    require_source(path)
    if isinstance(path, RemoteFile):
        source = from_remote_folders(path)
    elif path.is_dir():
        source = from_folders(path)
    elif path.is_file():
        source = from_manifest(path, by_channel)
    else:
        raise InputError(
            f"{path}: this is a pipe, device or socket, and a table is read more than once. Write "
            "it to a file, and name that file."
        )
    if not source.recordings:
        raise InputError(_nothing(path, source.left_out))
    return source


def require_source(path: Path | RemoteFile) -> None:
    """Raise `InputError` where there is nothing at `path`, or a URL cannot be reached."""
    try:
        is_there = path.exists()
    except InputError as error:
        raise named(path, error, "source=") from error
    if not is_there:
        raise InputError(
            f"{path}: no such file or folder. source= takes a folder of label folders, "
            "a CSV manifest, or demo."
        )


def _nothing(path: Path | RemoteFile, left_out: list[LeftOut]) -> str:
    if left_out:
        first = left_out[0]
        return (
            f"{path}: no recordings found; {len(left_out)} left out, the first: "
            f"{first.path}: {first.reason}."
        )
    if isinstance(path, Path) and path.is_file():
        return (
            f"{path}: no recordings found: it has a heading and no rows. Add a row for each "
            "recording, with its path and label."
        )
    return (
        f"{path}: no recordings found. Expected audio ({' '.join(sorted(AUDIO_SUFFIXES))}) "
        "in folders named by label."
    )
