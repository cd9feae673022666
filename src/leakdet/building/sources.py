"""Sources of `build`: label folders, split folders with label folders, or a CSV manifest."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from leakdet.acoustics.audio import AUDIO_SUFFIXES, is_audio_name
from leakdet.errors import InputError, first_few
from leakdet.storage.store import SPLITS

_SPLIT_NAMES = {
    "train": "train", "training": "train",
    "val": "val", "valid": "val", "validation": "val",
    "test": "test", "testing": "test",
}  # fmt: skip
# AILH's file names are sensor~recording~timestamp~gain.wav
_AILH_NAME = ("sensor", "recording", "timestamp", "gain_db")
RESERVED_COLUMNS = frozenset(
    "recording_id path split label weight windows live_windows duration_s source_rate_hz rms_dbfs "
    "dc_offset clipped_fraction flags content_sha256 mel_crc32 mains_hum_50_db mains_hum_60_db "
    "surrogate_of".split()
)


@dataclass(frozen=True)
class SourceRecording:
    """A recording as its source describes it, before anything is read."""

    recording_id: str
    path: Path
    label: str
    split: str | None = None
    weight: float = 1.0
    groups: dict[str, str] = field(default_factory=dict)
    surrogate_of: str = ""  # id of the recording that this surrogate is made from


@dataclass(frozen=True)
class LeftOut:
    """A file of the source that is not in the store, with the reason."""

    path: str
    reason: str


@dataclass(frozen=True)
class Source:
    """Recordings in a fixed order, and files that are no recordings."""

    recordings: list[SourceRecording]
    left_out: list[LeftOut]


def read_source(path: Path) -> Source:
    """List the recordings of a folder or CSV manifest, without opening them.

    Raises:
        InputError: the source is missing or empty, or gives a recording no label or two.
    """
    if path.is_dir():
        source = _from_folders(path)
    elif path.is_file():
        source = _from_manifest(path)
    else:
        raise InputError(
            f"{path}: no such file or folder. source= takes a folder of label folders, "
            "a CSV manifest, or demo."
        )
    if not source.recordings:
        raise InputError(
            f"{path}: no recordings found. Expected audio ({' '.join(sorted(AUDIO_SUFFIXES))}) "
            "in folders named by label."
        )
    _check_one_label_each(path, source.recordings)
    return source


def _from_folders(root: Path) -> Source:
    split_of: dict[Path, str | None] = {
        folder: _SPLIT_NAMES.get(folder.name.casefold()) for folder in _subfolders(root)
    }
    if not split_of or None in split_of.values():  # label folders
        split_of = {root: None}
    strays = [
        LeftOut(str(path), "not in a label folder")
        for parent in dict.fromkeys([root, *split_of])
        for path in sorted(parent.iterdir())
        if path.is_file() and is_audio_name(path)
    ]
    recordings = [
        recording
        for parent, split in split_of.items()
        for folder in _subfolders(parent)
        for recording in _label_folder(root, folder, split)
    ]
    return Source(recordings, strays)


def _subfolders(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
    )


def _label_folder(root: Path, folder: Path, split: str | None) -> Iterator[SourceRecording]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and is_audio_name(path):
            identity = printable(path.relative_to(root).as_posix())
            yield SourceRecording(identity, path, folder.name, split, groups=_groups_of_name(path))


def _groups_of_name(path: Path) -> dict[str, str]:
    parts = path.stem.split("~")
    return dict(zip(_AILH_NAME, parts, strict=True)) if len(parts) == len(_AILH_NAME) else {}


def printable(name: str) -> str:
    """The name with bytes that are not UTF-8 written as escapes, so that it can be stored."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _from_manifest(path: Path) -> Source:
    recordings: list[SourceRecording] = []
    unlabelled: list[str] = []
    for number, row in enumerate(_rows(path), start=2):
        where = f"{path}, line {number}"
        name, label = row.pop("path"), row.pop("label")
        if not name:
            raise InputError(f"{where}: the path is empty.")
        if not label:
            unlabelled.append(name)
            continue
        split = _parse_split(where, row.pop("split", ""))
        weight = _parse_weight(where, row.pop("weight", ""))
        file = Path(name) if Path(name).is_absolute() else path.parent / name
        groups = {**_groups_of_name(file), **row}
        recordings.append(
            SourceRecording(printable(Path(name).as_posix()), file, label, split, weight, groups)
        )
    if unlabelled:
        raise InputError(
            f"{path}: {len(unlabelled)} recordings have no label: {first_few(unlabelled)}. "
            "Label or remove them."
        )
    return Source(recordings, [])


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        first_line = file.readline()
        delimiter = max(",;\t", key=first_line.count)
        file.seek(0)
        reader = csv.DictReader(file, delimiter=delimiter, strict=True)
        columns = [column.strip() for column in reader.fieldnames or []]
        _check_columns(path, columns)
        reader.fieldnames = columns
        try:
            for row in reader:
                if None in row or None in row.values():
                    raise InputError(
                        f"{path}, line {reader.line_num}: it does not have {len(columns)} fields."
                    )
                yield {column: value.strip() for column, value in row.items()}
        except csv.Error as error:
            raise InputError(f"{path}, line {reader.line_num}: not CSV ({error}).") from error


def _check_columns(path: Path, columns: list[str]) -> None:
    missing = sorted({"path", "label"} - set(columns))
    if missing:
        raise InputError(
            f"{path}: a manifest needs the columns path and label; {missing} missing in {columns}."
        )
    taken = sorted(set(columns) & RESERVED_COLUMNS - {"path", "label", "split", "weight"})
    wrong = taken + [column for column in columns if not column or "/" in column]
    if wrong or len(set(columns)) < len(columns):
        raise InputError(
            f"{path}: columns {wrong or columns} are reserved, repeated or unnamed; rename them."
        )


def _parse_split(where: str, value: str) -> str | None:
    if value and value.casefold() not in _SPLIT_NAMES:
        raise InputError(f"{where}: split {value!r} is not one of {', '.join(SPLITS)}.")
    return _SPLIT_NAMES[value.casefold()] if value else None


def _parse_weight(where: str, value: str) -> float:
    try:
        weight = float(value or 1)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < float("inf"):
        raise InputError(f"{where}: weight {value!r} is not a number of at least 0.")
    return weight


def _check_one_label_each(source: Path, recordings: list[SourceRecording]) -> None:
    """Refuse a file that is listed with two labels; one listed twice alike is left out later."""
    labels: dict[Path, str] = {}
    contradictions = [
        f"{recording.recording_id} ({labels[recording.path]} and {recording.label})"
        for recording in recordings
        if labels.setdefault(recording.path, recording.label) != recording.label
    ]
    if contradictions:
        raise InputError(
            f"{source}: {len(contradictions)} recordings have two labels: "
            f"{first_few(contradictions)}."
        )
