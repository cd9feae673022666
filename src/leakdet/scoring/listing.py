"""The recordings to score: paths, folders, URLs and tables, with what their names tell."""

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from string import Formatter

from leakdet.acoustics.listing import LeftUnlisted, audio_files
from leakdet.core.errors import InputError, SettingsError, counted, first_few
from leakdet.core.locations import (
    Location,
    RemoteFile,
    absolute_file,
    check_reachable,
    errors_naming,
    is_url,
    local_copy,
    parse_location,
    with_location,
    without_secrets,
)
from leakdet.core.messages import log_results
from leakdet.storage.model_card import MODEL_SUFFIXES, find_model, model_kind, runs_in
from leakdet.tables.read import TableStream, absence, columns_hint, file_named, lists_seconds
from leakdet.tables.schema import NO_COLUMNS, RECORDED_AT, SPAN, InputRecording, is_reserved
from leakdet.tables.values import ALLOWED, TABLE_SUFFIXES, RowError, iso_text, span_of

SHOWN = 5


@dataclass
class Tally:
    """How many there were, and the first of them.

    >>> tally = Tally()
    >>> for name in ("a", "b"): tally.add(name)
    >>> tally.count, str(tally)
    (2, 'a, b')
    """

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Count one more; the first few different ones are kept."""
        self.count += 1
        if len(self.first) < SHOWN and text not in self.first:
            self.first.append(text)

    def __str__(self) -> str:
        return ", ".join(self.first) + (" …" if self.count > len(self.first) else "")


FREE = "[^/]+?"  # a field of any text
# what each directive of strptime stands for in a name
DIRECTIVES = {
    "Y": r"\d{4}", "y": r"\d\d", "m": r"\d\d", "d": r"\d\d", "j": r"\d{3}",
    "H": r"\d\d", "I": r"\d\d", "M": r"\d\d", "S": r"\d\d", "f": r"\d{1,6}",
    "b": "[A-Za-z]{3}", "p": "[AaPp][Mm]", "z": r"(?:Z|[+-]\d\d:?\d\d)", "%": "%",
}  # fmt: skip
HOURS = re.compile("%[HIMSfpz]")  # a format with none of them names a day
HELP = (
    "{site} and any other {name} stand for text, {} for text that is not kept, "
    "{recorded_at:%Y%m%d_%H%M} for a time, and everything else for itself"
)


class NamePattern:
    """Columns of recordings by the names of their files, without their suffix.

    A pattern with slashes is about as many folders above, too. A field takes as little as
    possible, at least one character and no slash. Times become ISO 8601.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._formats: dict[str, str] = {}
        fields = self._fields()
        for (_, left), (between, right) in pairwise(fields):
            if not between and FREE in left and FREE in right:
                raise self._wrong("two fields of text touch, and nothing tells where one ends")
        parts = [re.escape(literal) + field for literal, field in fields]
        self.columns = tuple(self._formats)
        if not self.columns:
            raise self._wrong("it has no field")
        self._depth = text.count("/") + 1
        self._match = re.compile("".join(parts)).fullmatch

    def _fields(self) -> list[tuple[str, str]]:
        try:
            parsed = list(Formatter().parse(self.text))
        except ValueError as error:
            raise self._wrong(str(error)) from error
        return [
            (literal, "" if name is None else self._field(name, form or "", conversion))
            for literal, name, form, conversion in parsed
        ]

    def _field(self, name: str, form: str, conversion: str | None) -> str:
        if not name and not form:
            return FREE
        if not name.isidentifier() or conversion:
            raise self._wrong(f"{name or 'a field'!r} is no name of a column")
        if is_reserved(name):
            raise self._wrong(f"leakdet writes a column {name} itself")
        if name in self._formats:
            raise self._wrong(f"{name} occurs twice")
        self._formats[name] = form
        return f"(?P<{name}>{self._format(form) if form else FREE})"

    def _format(self, form: str) -> str:
        pieces = re.split(r"%(.?)", form)
        for directive in pieces[1::2]:
            if directive not in DIRECTIVES:
                known = " ".join(f"%{letter}" for letter in DIRECTIVES)
                raise self._wrong(f"%{directive} is none of {known}")
            if directive != "%" and form.count(f"%{directive}") > 1:
                raise self._wrong(f"%{directive} occurs twice in {form!r}")
        if len(pieces) == 1:
            raise self._wrong(f"{form!r} is no format of a time, such as %Y%m%d_%H%M")
        pieces[0::2] = map(re.escape, pieces[0::2])
        pieces[1::2] = [DIRECTIVES[directive] for directive in pieces[1::2]]
        return "".join(pieces)

    def _wrong(self, why: str) -> SettingsError:
        return SettingsError(f"--name-pattern {self.text!r}: {why}. {HELP}.")

    def read(self, path: Location) -> Mapping[str, str] | None:
        """The columns that a name tells; None where it does not match, or a time is none."""
        match = self._match("/".join([*path.parts[:-1], path.stem][-self._depth :]))
        if match is None:
            return None
        try:
            return {name: _text_of(name, match[name], form) for name, form in self._formats.items()}
        except ValueError:  # the 31st of February
            return None


def _text_of(name: str, text: str, form: str) -> str:
    if not form:
        return (name == "recorded_at" and iso_text(text)) or text
    moment = datetime.strptime(text, form)  # noqa: DTZ007  as told
    return (moment if HOURS.search(form) else moment.date()).isoformat()


def is_table_name(name: str) -> bool:
    """True of a name, or a glob, that stands for tables of recordings."""
    is_text = name.lower().endswith(".txt")  # of which few are tables
    return lists_seconds(Path(name)) if is_text else name.lower().endswith(TABLE_SUFFIXES)


class RecordingTable:
    """The recordings of a table with the column path, as a stream; ask for notes after it.

    `columns` are those that go on into rows: all but path and what leakdet writes itself, with the
    seconds that rows are about. `recorded_at` becomes ISO 8601; what is no time stays as it is.
    """

    def __init__(self, path: Location) -> None:
        self.path = path
        self._copy = local_copy(path)
        with errors_naming(path, self._copy):
            self._table = TableStream(self._copy)
        named = self._table.columns
        if named and "path" not in named:
            raise InputError(
                f"{path}: a table of recordings needs the column path, and may have site, "
                f"recorded_at and more; {columns_hint(named, ['path'], self._table.remarks)}"
            )
        wrong = sorted({name for name in named if not name or named.count(name) > 1})
        if wrong:
            raise InputError(f"{path}: columns {wrong} are unnamed or repeated; rename them.")
        reserved = {name for name in named if is_reserved(name)}
        reserved -= {*SPAN} if reserved >= {*SPAN} else set()
        self.columns = tuple(name for name in named if name not in reserved)
        self.left_out = [name for name in named if name in reserved and name != "path"]
        self.faults, self.unread = Tally(), Tally()

    def __iter__(self) -> Iterator[tuple[Location, dict[str, str], str]]:
        """File, columns, and why it cannot be read, of each row."""
        self.faults, self.unread = Tally(), Tally()
        for number, row in self._table:
            if isinstance(row, str):
                self.faults.add(f"line {number}: {row}")
            elif not row["path"]:
                self.faults.add(f"line {number}: the path is empty")
            else:
                file = file_named(self.path, row["path"])
                error = "" if file else f"{absence(row['path'])} ({self.path}, line {number})"
                try:
                    columns = self._columns_of(row)
                except RowError as fault:
                    self.faults.add(f"line {number}: {fault}")
                else:
                    yield file or Path(row["path"]), columns, error

    def _columns_of(self, row: dict[str, str]) -> dict[str, str]:
        columns = {name: without_secrets(row[name]) for name in self.columns}
        if span := span_of(columns):
            columns |= dict(zip(SPAN, map(repr, span), strict=True))
        if text := columns.get(RECORDED_AT):
            if iso := iso_text(text):
                columns[RECORDED_AT] = iso
            else:
                self.unread.add(text)
        return columns

    def losses(self) -> list[str]:
        """Sentences on lines that give no recording."""
        if not self.faults.count:
            return []
        return [f"left out {counted(self.faults.count, 'line')} of {self.path}: {self.faults}"]

    def notes(self) -> list[str]:
        """Sentences on how the table was read."""
        notes = list(self._table.remarks)
        if self.left_out:
            notes.append(
                f"columns of {self.path} that do not go on into the rows, since leakdet writes "
                f"such itself: {', '.join(self.left_out)}"
            )
        if self.unread.count:
            notes.append(
                f"{RECORDED_AT} {self.unread} of {self.path} ({self.unread.count} rows) is not "
                f"understood and stays as it is; write times as {ALLOWED}"
            )
        return notes


REPEATED = "listed more than once, scored once, with what is told of it first"
FIRST = 3  # files of each bucket, by which it is tried before the work


class Listing:
    """The recordings of names, in their order; iterate for them, and then ask what was left out.

    Memory does not grow with their number. A recording that two names give comes twice; who keeps
    it once may count it in `repeated`. A name that exists is never a glob.
    """

    def __init__(self, names: Sequence[str], name_pattern: str | None = None) -> None:
        self.names = names
        self.pattern = None if name_pattern is None else NamePattern(name_pattern)
        self.tables = {path: RecordingTable(path) for path in _tables(names)}
        of_tables = (column for table in self.tables.values() for column in table.columns)
        of_names = self.pattern.columns if self.pattern else ()
        self.columns = tuple(dict.fromkeys((*of_tables, *of_names)))  # of every recording
        self._start()

    def _start(self) -> None:
        self.empty_sources: list[str] = []  # names that give no recording
        self.models: list[str] = []  # names that give a model instead
        self.unlisted = LeftUnlisted()
        self.first_remote: dict[str, list[RemoteFile]] = {}  # of each bucket or host
        self.repeated, self.unmatched, self.contradicted = Tally(), Tally(), Tally()
        self._matched = False

    def __iter__(self) -> Iterator[InputRecording]:
        self._start()
        for name in self.names:
            repeated, is_empty = len(self.unlisted.repeated), True
            paths = list(_expanded(name))
            for path in paths:
                for listed in self._listed(path):
                    is_empty = False
                    self._note_remote(listed.source)
                    yield listed
            if is_empty:
                if len(self.unlisted.repeated) == repeated:
                    self.empty_sources.append(name)
                local = [path for path in paths if isinstance(path, Path)]
                self.models += [str(path) for path in local if find_model(path) or runs_in(path)]
        if self.pattern and self.unmatched.count and not self._matched:
            raise InputError(
                f"--name-pattern {self.pattern.text!r}: no name matches it, such as "
                f"{self.unmatched}. {HELP}."
            )

    def _listed(self, path: Location) -> Iterator[InputRecording]:
        if table := self.tables.get(path):
            for file, columns, error in table:
                yield InputRecording(file, self._columns(file, columns), error)
        else:
            for file in audio_files(path, self.unlisted):
                yield InputRecording(file, self._columns(file, NO_COLUMNS))

    def _note_remote(self, file: Location) -> None:
        if isinstance(file, RemoteFile):
            first = self.first_remote.setdefault(file.host, [])
            if len(first) < FIRST:
                first.append(file)

    def _columns(self, file: Location, of_table: Mapping[str, str]) -> Mapping[str, str]:
        """Every column: as the table tells it, else as the name does, else empty."""
        if not self.columns:
            return NO_COLUMNS
        of_name = self.pattern.read(file) if self.pattern else NO_COLUMNS
        if of_name is None:
            self.unmatched.add(str(file))
            of_name = NO_COLUMNS
        self._matched |= bool(of_name)
        if any(of_table.get(column, "") not in ("", text) for column, text in of_name.items()):
            self.contradicted.add(str(file))
        return {name: of_table.get(name) or of_name.get(name, "") for name in self.columns}

    @property
    def complete(self) -> bool:
        """True if every name gave recordings, and none was left out of folders and tables."""
        faulty = any(table.faults.count for table in self.tables.values())
        return not (self.empty_sources or self.unlisted.lost or faulty)

    def sentences(self) -> list[str]:
        """A line for each kind that was left out, and notes."""
        lines = [f"left out {without_secrets(name)}: no audio there" for name in self.empty_sources]
        lines += [line for table in self.tables.values() for line in table.losses()]
        lines += self.unlisted.sentences()
        lines += [note for table in self.tables.values() for note in table.notes()]
        for tally, what in (
            (self.repeated, REPEATED),
            (self.unmatched, "names that --name-pattern does not match, which tell no columns"),
            (self.contradicted, "names and tables that tell otherwise; the table was believed"),
        ):
            if tally.count:
                lines.append(f"{what}: {tally.count} ({tally})")
        return lines


def list_recordings(names: Sequence[str], name_pattern: str | None = None) -> Listing:
    """The recordings of paths, folders, globs and tables, as a stream."""
    return Listing(names, name_pattern)


def _tables(names: Sequence[str]) -> Iterator[Location]:
    """The tables among names. Others that a glob such as `night/*` finds are no tables."""
    for name in filter(is_table_name, names):
        for path in _expanded(name):
            if isinstance(path, RemoteFile) or not path.is_dir():
                yield path


def _expanded(name: str) -> Iterator[Location]:
    if isinstance(remote := parse_location(name), RemoteFile):
        try:
            yield from remote.matches()
        except InputError as error:
            raise with_location(remote, error) from error
        return
    name = str(remote) if is_url(name) else name
    if os.path.lexists(name) or not glob.has_magic(name):
        yield Path(name)
        return
    matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207  names stay as they are typed
    yield from map(Path, matches)


@dataclass(frozen=True)
class FileList:
    """Recordings in the order of the names that gave them, each once, and what gave none."""

    recordings: Sequence[InputRecording]
    listing: Listing

    @property
    def files(self) -> list[Location]:
        return [recording.source for recording in self.recordings]


def list_files(names: Sequence[str], name_pattern: str | None = None) -> FileList:
    """The audio of paths, folders, globs and tables, each file once."""
    listing, first = list_recordings(names, name_pattern), dict[object, InputRecording]()
    for recording in listing:
        key = (absolute_file(recording.source), recording.span)
        earlier = first.setdefault(key, recording)
        if earlier is not recording:
            listing.repeated.add(str(recording.source))
            if not any(earlier.columns.values()):  # a folder gave it before its table
                first[key] = replace(earlier, columns=recording.columns)
    check_listing(listing, bool(first))
    return FileList(list(first.values()), listing)


def check_listing(listing: Listing, has_recordings: bool) -> None:
    """Refuse a listing, at its end, that gave models or no recording."""
    if listing.models:
        raise InputError(
            f"these hold models, not recordings: {first_few(listing.models)}. Give one model, then "
            "the recordings. The newest run is runs/train/latest."
        )
    if not has_recordings:
        named = f"no audio found in {without_secrets(first_few(listing.names))}"
        losses = [line for table in listing.tables.values() for line in table.losses()]
        raise InputError(f"{'; '.join([named, *losses, *listing.unlisted.sentences()])}.")
    check_reachable(listing.first_remote)


def check_headers(names: Sequence[str], option: str) -> list[Location]:
    """The files of names that an option gives, whose headers say that they are sound."""
    from leakdet.acoustics.audio import read_header  # with SciPy, which takes its time

    listed = list_files(names)
    for file in listed.files:
        try:
            read_header(file)
        except InputError as error:
            raise InputError(f"{option} {file}: {error}.") from error
    log_results(listed.listing.sentences())
    return listed.files


def is_model(file: Location) -> bool:
    return model_kind(file) in MODEL_SUFFIXES


def refuse_models(models: Sequence[Location], model: Location) -> None:
    """Raise `InputError` where there are models among the recordings for `model`."""
    if models:
        raise InputError(
            "predict takes one model, and these are models too: "
            f"{first_few([str(model), *map(str, models)])}. "
            "The newest run is runs/train/latest."
        )


def check_files(files: Sequence[Location], model: Location, out: Location | None) -> None:
    """Refuse models among the files, and an output that is an input."""
    refuse_models([file for file in files if is_model(file)], model)
    if isinstance(out, RemoteFile):
        if out in (*files, model):
            raise InputError(f"--out {out}: this is one of the inputs; name another file.")
        return
    if out is None or not out.exists():
        return
    if out.is_dir():
        raise InputError(f"--out {out}: this is a folder; name a file in it.")
    local = [file for file in files if isinstance(file, Path)]
    if any(file.exists() and out.samefile(file) for file in local):
        raise InputError(
            f"--out {out}: this is one of the recordings or their table; name another file."
        )
    if isinstance(model, Path) and model.exists() and out.samefile(model):
        raise InputError(f"--out {out}: this is the model; name another file.")
