"""The content of a source of `build`: recordings with label, groups and split; files left out."""

import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from glob import escape
from pathlib import Path, PurePosixPath
from unicodedata import normalize

from leakdet.acoustics.listing import LOST, LeftUnlisted, audio_files, is_audio_name, is_hidden
from leakdet.config import BuildConfig, LabelsConfig, SignalConfig
from leakdet.core.errors import InputError, SettingsError, counted
from leakdet.core.locations import (
    SOURCE_FILE,
    Excerpt,
    Location,
    RemoteFile,
    Span,
    absolute_file,
    errors_naming,
    excerpt,
    is_url,
    local_copy,
    with_location,
    without_secrets,
)
from leakdet.detection.labels import LabelView, label_view
from leakdet.storage.model_card import model_in, model_kind, read_card
from leakdet.storage.opening import open_split, split_names
from leakdet.storage.store import SPLITS
from leakdet.tables.read import (
    Table,
    absence,
    columns_hint,
    file_named,
    lists_seconds,
    read_table,
)
from leakdet.tables.schema import SPAN, is_reserved
from leakdet.tables.values import TABLE_SUFFIXES, RowError, span_of


def with_like(config: BuildConfig) -> BuildConfig:
    """The settings with the signal of `config.like`; as they are where it names nothing."""
    if not config.like:
        return config
    signal = signal_like(Path(config.like))
    if config.signal != SignalConfig() and (differing := signal.differences(config.signal)):
        raise SettingsError(
            f"like={config.like}: its signal differs from the one that is given (like / given): "
            f"{'; '.join(differing)}. Leave out signal=, or like=."
        )
    return replace(config, signal=signal)


def signal_like(path: Path) -> SignalConfig:
    """The signal of a model file, the folder of a run, or a store."""
    if path.is_dir() and any(path.glob("*.[hH]5")):
        return signal_of_store(path)
    model = model_in(path)
    if model_kind(model) != ".safetensors":
        if model.exists():
            raise InputError(
                f"{model}: like= takes a .safetensors file, a run's folder or a store."
            )
        raise InputError(f"{model}: there is no such model or store.")
    signal = read_card(model)["signal"]
    if signal is None:
        raise InputError(f"{model}: it does not say by which signal its recordings became mel.")
    return SignalConfig.from_dict(signal, str(model))


def signal_of_store(store: Path) -> SignalConfig:
    """The signal by which a store was built. Raises `InputError` where it does not say it."""
    names = split_names(store)
    signal = open_split(store, names[0]).signal if names else None
    if signal is None:
        raise InputError(f"{store}: it does not say by which signal its recordings became mel.")
    return signal


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
    path: Location
    label: str
    split: str | None = None
    weight: float = 1.0
    groups: dict[str, str] = field(default_factory=dict)
    channel: int = 0  # of the file, from 1; 0: made mono as signal.channels says
    span: Span | None = None  # the seconds of the file that it is; None: all
    where: str = ""  # the line that lists these seconds

    @property
    def sound(self) -> Location | Excerpt:
        """The file, or the seconds of it."""
        return excerpt(self.path, self.span)

    @property
    def place(self) -> str:
        """Where to look for what is wrong with it: its name, or the line that lists its seconds."""
        return self.where or self.recording_id


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


def groups_of_name(path: Location) -> dict[str, str]:
    """The groups in the file names of AILH."""
    parts = printable(path.stem).split("~")
    return dict(zip(_AILH_NAME, parts, strict=True)) if len(parts) == len(_AILH_NAME) else {}


def printable(name: str) -> str:
    """The name in composed Unicode (NFC); bytes that are not UTF-8 become escapes.

    So it can be stored, and equals the same name typed on another system.
    """
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return normalize("NFC", text)


WHOLE = Span(0.0, math.inf)
NO_LABEL = "it has no label"  # of a row that learn counts and build leaves out
STRAY = "not in a label folder"
READ_COLUMNS = ("path", "label", "split", "weight")


def from_manifest(path: Location, by_channel: bool = False, unlabelled: str = "") -> Source:
    """List the recordings of a table; rows that give none are left out with their line.

    With `by_channel`, a column `channel` may name the one channel of a file that a row is about.
    Rows without a label get the label `unlabelled`.
    """
    copy = local_copy(path)
    with errors_naming(path, copy):
        table = read_table(copy)
    groups = _group_columns(path, table)
    left_out = [LeftOut(f"{path}, line {number}", reason) for number, reason in table.faults]
    recordings = []
    for number, row in table.rows:
        try:
            channel = _parse_channel(row.get("channel", "")) if by_channel else 0
            row["label"] = row["label"] or unlabelled
            recording = replace(_recording(path, row, groups), channel=channel)
            if span := span_of(row):
                recording = _part(recording, span, f"{path}, line {number}")
            recordings.append(recording)
        except RowError as error:
            named = f" ({printable(row['path'])})" if row["path"] else ""
            left_out.append(LeftOut(f"{path}, line {number}{named}", str(error)))
    return Source(recordings, left_out, table.remarks)


def _group_columns(path: Location, table: Table) -> list[str]:
    columns = table.columns
    if not {"path", "label"} <= {*columns}:
        hint = columns_hint(columns, ("path", "label"), table.remarks)
        raise InputError(f"{path}: a manifest needs the columns path and label; {hint}")
    wrong = sorted({name for name in columns if not name or "/" in name or columns.count(name) > 1})
    if wrong:
        raise InputError(
            f"{path}: columns {wrong} are unnamed, repeated or hold a slash; rename them."
        )
    read = {*READ_COLUMNS, *(SPAN if {*SPAN} <= {*columns} else ())}
    own = [name for name in columns if name not in read and is_reserved(name)]
    if own:
        table.remarks.append(
            f"Columns of {path.name} that make no groups, since leakdet writes such itself: "
            f"{', '.join(own)}."
        )
    return [name for name in columns if name not in read | {*own}]


def _recording(manifest: Location, row: dict[str, str], groups: list[str]) -> SourceRecording:
    name, label = row["path"], printable(row["label"])
    if not name:
        raise RowError("the path is empty")
    if not label:
        raise RowError(NO_LABEL)
    file = file_named(manifest, name)
    if file is None:
        raise RowError(absence(name))
    split = _parse_split(row.get("split", ""))
    weight = _parse_weight(row.get("weight", ""))
    values = {column: printable(without_secrets(row[column])) for column in groups}
    identity = printable(str(file) if is_url(name) else Path(name).as_posix())
    return SourceRecording(identity, file, label, split, weight, {**groups_of_name(file), **values})


def _part(recording: SourceRecording, span: Span, where: str) -> SourceRecording:
    """The seconds of a recording, which stay in one split with others of their file."""
    name = f"{recording.recording_id}#{span}"
    groups = {**recording.groups, SOURCE_FILE: printable(absolute_file(recording.path))}
    return replace(
        recording, recording_id=name, groups=groups, span=span, where=f"{where} ({name})"
    )


def _parse_split(value: str) -> str | None:
    if value and value.casefold() not in SPLIT_NAMES:
        raise RowError(f"split {value!r} is not one of {', '.join(SPLITS)}")
    return SPLIT_NAMES[value.casefold()] if value else None


def _parse_channel(value: str) -> int:
    if value and not (value.isascii() and value.isdecimal() and int(value)):
        raise RowError(f"channel {value!r} is not a number from 1 on")
    return int(value or 0)


def _parse_weight(value: str) -> float:
    try:
        weight = float(value.replace(",", ".") or 1)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < float("inf"):
        raise RowError(f"weight {value!r} is not a number of at least 0")
    return weight


def from_folders(root: Path) -> Source:
    """List the recordings below `root`; a folder's name is the label of what it holds."""
    unlisted = LeftUnlisted()
    folders = _subfolders(root, unlisted)
    splits, beside = split_folders(folder.name for folder in folders)
    for name in beside:
        if any(audio_files(root / name, LeftUnlisted())):
            raise InputError(f"{root / name}: {SOUND_BESIDE_SPLITS}")
    split_of: dict[Path, str | None] = {root / name: split for name, split in splits.items()}
    split_of = split_of or {root: None}  # label folders
    by_tables, strays = Source([], []), list[LeftOut]()
    for parent in dict.fromkeys([root, *split_of]):
        for path in _strays(parent, unlisted):
            if tables := _tables_beside(path):
                _add_seconds(by_tables, tables, parent.relative_to(root), split_of.get(parent))
            else:
                strays.append(LeftOut(printable(str(path)), STRAY))
    recordings = [
        recording
        for parent, split in split_of.items()
        for folder in (folders if parent == root else _subfolders(parent, unlisted))
        for recording in _label_folder(root, folder, split, unlisted)
    ]
    return Source(
        [*recordings, *by_tables.recordings],
        [*strays, *by_tables.left_out, *left_out_of(root, unlisted)],
        [*by_tables.remarks, *unlisted.notes()],
    )


def _tables_beside(sound: Path) -> list[Path]:
    """The tables that label seconds of a sound by its name, as those of Audacity and Raven do."""
    beside = sorted(sound.parent.glob(f"{escape(sound.stem)}.*"))
    tables = [path for path in beside if path.suffix.lower() in TABLE_SUFFIXES]
    return list(filter(lists_seconds, tables))


def _add_seconds(source: Source, tables: Iterable[Path], folder: Path, split: str | None) -> None:
    """Add what tables beside a sound label, under names that begin with its folder."""
    for listed in map(from_manifest, tables):
        for recording in listed.recordings:
            name = printable((folder / recording.recording_id).as_posix())
            source.recordings.append(replace(recording, recording_id=name, split=split))
        source.left_out.extend(listed.left_out)
        source.remarks.extend(listed.remarks)


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


def left_out_of(root: Location, unlisted: LeftUnlisted) -> Iterator[LeftOut]:
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


def from_remote_folders(root: RemoteFile) -> Source:
    """List the recordings below `root`, in the order and with the names of a local folder."""
    unlisted, start = LeftUnlisted(), len(root.key.parts)
    files = {file.key.parts[start:]: file for file in audio_files(root, unlisted)}
    splits, beside = split_folders({parts[0] for parts in files if len(parts) > 1})
    if beside:
        raise with_location(root / beside[0], InputError(SOUND_BESIDE_SPLITS))
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
            strays.append(LeftOut(printable(str(file)), STRAY))
    return Source(recordings, [*strays, *left_out_of(root, unlisted)], unlisted.notes())


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
    """Leave out sounds with two labels; one that is listed twice alike is left out later."""
    of_file: defaultdict[str, list[SourceRecording]] = defaultdict(list)
    for recording in source.recordings:
        of_file[absolute_file(recording.path)].append(recording)
    labels = {key: names for listed in of_file.values() for key, names in _labels_of(listed)}
    kept: list[SourceRecording] = []
    left_out = list(source.left_out)
    for recording in source.recordings:
        others = of_file[absolute_file(recording.path)]
        if len(names := sorted(labels[id(recording)])) > 1:
            reason = f"listed with the labels {' and '.join(names)}"
        elif len({other.channel > 0 for other in others}) > 1:
            reason = "listed both whole and by channel"
        elif len({other.span is None for other in others}) > 1:
            reason = "listed both whole and by seconds"
        else:
            kept.append(recording)
            continue
        left_out.append(LeftOut(recording.place, reason))
    return Source(kept, left_out, source.remarks)


def _labels_of(listed: Sequence[SourceRecording]) -> Iterator[tuple[int, set[str]]]:
    """By identity, the labels of each recording of one file and of those that overlap it."""
    overlapping: list[tuple[Span, SourceRecording, set[str]]] = []
    for recording in sorted(listed, key=lambda listed: listed.span or WHOLE):
        span, labels = recording.span or WHOLE, {recording.label}
        yield id(recording), labels
        overlapping = [entry for entry in overlapping if entry[0].end_s > span.start_s]
        for _, other, of_other in overlapping:
            if other.channel == recording.channel:
                of_other.add(recording.label)
                labels.add(other.label)
        overlapping.append((span, recording, labels))
