"""The content of a source of `build`: recordings with label, groups and split; files left out."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from unicodedata import normalize

from leakdet._remote import RemoteFile

SPLIT_NAMES = {
    "train": "train", "training": "train",
    "val": "val", "valid": "val", "validation": "val",
    "test": "test", "testing": "test",
}  # fmt: skip
SOUND_BESIDE_SPLITS = (
    "a folder with sound beside the folders train, val and test. Move it away, or into one of them "
    "as a label."
)
# AILH's file names are sensor~recording~timestamp~gain.wav
_AILH_NAME = ("sensor", "recording", "timestamp", "gain_db")


@dataclass(frozen=True)
class SourceRecording:
    """A recording as its source describes it, before anything is read."""

    recording_id: str
    path: Path | RemoteFile
    label: str
    split: str | None = None
    weight: float = 1.0
    groups: dict[str, str] = field(default_factory=dict)
    surrogate_of: str = ""  # id of the recording that this surrogate is made from
    channel: int = 0  # of the file, from 1; 0: made mono as signal.channels says


@dataclass(frozen=True)
class LeftOut:
    """A file, row or folder of the source that is not in the store, with the reason."""

    path: str
    reason: str


@dataclass(frozen=True)
class Source:
    """Recordings in a fixed order, what is left out, and remarks for the user."""

    recordings: list[SourceRecording]
    left_out: list[LeftOut]
    remarks: list[str] = field(default_factory=list)


def split_folders(names: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """The split of each split folder among `names`, and the folders beside them, both sorted.

    Without a train and a test, any other name means that all are label folders: both are empty.

    >>> split_folders(["test", "Training", "old"])
    ({'Training': 'train', 'test': 'test'}, ['old'])
    >>> split_folders(["test", "leak"])
    ({}, [])
    """
    folders = {name: SPLIT_NAMES.get(name.casefold()) for name in sorted(names)}
    splits = {name: split for name, split in folders.items() if split}
    beside = [name for name, split in folders.items() if not split]
    are_labels = bool(beside) and not {"train", "test"} <= {*splits.values()}
    return ({}, []) if are_labels else (splits, beside)


def groups_of_name(path: Path | RemoteFile) -> dict[str, str]:
    """The groups in the file names of AILH."""
    parts = printable(path.stem).split("~")
    return dict(zip(_AILH_NAME, parts, strict=True)) if len(parts) == len(_AILH_NAME) else {}


def printable(name: str) -> str:
    """The name in composed Unicode (NFC); bytes that are not UTF-8 become escapes.

    So it can be stored, and equals the same name typed on another system.
    """
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return normalize("NFC", text)
