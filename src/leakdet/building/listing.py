"""Lists what a source of `build` holds, without opening a recording."""

from collections.abc import Sequence
from pathlib import Path

from leakdet.acoustics.listing import is_audio_name
from leakdet.building.sources import (
    NO_LABEL,
    STRAY,
    LeftOut,
    Source,
    from_folders,
    from_manifest,
    from_remote_folders,
    relabelled,
)
from leakdet.building.splits import recording_groups
from leakdet.config import BuildConfig
from leakdet.core.errors import InputError, SettingsError, counted
from leakdet.core.locations import (
    AUDIO_SUFFIXES,
    SOURCE_FILE,
    Location,
    RemoteFile,
    parse_location,
    with_location,
)

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


def listed_source(config: BuildConfig) -> Source | None:
    """The recordings of a build, whose labels and group columns are checked; None of the demo.

    Raises `InputError` for what is wrong with the list alone, before torch is imported.
    """
    if config.source == "demo":
        return None
    source = read_source(parse_location(config.source), config.signal.channels == "each")
    named, _ = relabelled(source, config.labels, config.source)
    columns = [column for column in config.split.group_by if column != SOURCE_FILE]
    recording_groups(named.recordings, columns)
    return source


def require_labelled(table: Path, fewest: int) -> None:
    """Refuse a table to learn from with fewer labels than `fewest` of two classes need.

    Raises `InputError` as `from_manifest`, and `SettingsError`; before torch is imported.
    """
    listed = from_manifest(table)
    labelled = len(listed.recordings)
    if labelled >= 2 * fewest:
        return
    unusable = [row for row in listed.left_out if row.reason != NO_LABEL]
    where = with_unusable(table, len(listed.left_out) - len(unusable), unusable)
    raise SettingsError(
        f"{where}: {counted(labelled, 'confirmed recording')}; learning needs at least {fewest} "
        f"with a leak and {fewest} without (learn.min_per_class). Fill in the column label: leak, "
        "or no_leak where there was none; quiet places count too."
    )


def with_unusable(table: Path, unlabelled: int, left_out: Sequence[LeftOut]) -> str:
    """The name of a table, with the number of its rows that cannot be learnt."""
    remarks = [f"{counted(unlabelled, 'row')} without a label"] if unlabelled else []
    if left_out:
        first = f"{left_out[0].path}: {left_out[0].reason}"
        remarks.append(f"{len(left_out)} that cannot be used, such as {first}")
    return f"{table} ({'; '.join(remarks)})" if remarks else str(table)


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
        if all(item.reason == STRAY for item in left_out):
            return (
                f"{path}: {counted(len(left_out), 'recording')} and no label folder. A folder's "
                f"name is the label of what it holds: give {path.parent}, the folder above it."
            )
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
