"""The recordings that names stand for: paths, folders, globs and tables, as a stream."""

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leakdet._remote import RemoteFile, is_url, named, place
from leakdet.acoustics.audio_listing import LeftUnlisted, audio_files
from leakdet.errors import InputError
from leakdet.scoring.name_pattern import HELP, NamePattern
from leakdet.scoring.recording_table import RecordingTable, is_table_name
from leakdet.scoring.tally import Tally
from leakdet.storage.model_place import find_model, runs_in

REPEATED = "listed more than once, scored once, with what is told of it first"
NO_COLUMNS: Mapping[str, str] = {}
FIRST = 3  # files of each bucket, by which it is tried before the work


@dataclass(frozen=True, slots=True)
class ListedRecording:
    """A recording to score, with what its list tells of it.

    `columns` go on into its row. `error` says why it cannot be read, where its list knows already.
    """

    source: Path | RemoteFile
    columns: Mapping[str, str] = field(default_factory=lambda: NO_COLUMNS)
    error: str = ""


class Listing:
    """The recordings of names, in their order; iterate for them, and then ask what was left out.

    Memory does not grow with their number. A recording that two names give comes twice; who keeps
    it once may count it in `repeated`. A name that exists is never a glob.

    Raises:
        InputError: a table cannot be used, or no name of a file matches the pattern.
        SettingsError: the pattern is wrong.
    """

    def __init__(self, names: Sequence[str], name_pattern: str | None = None) -> None:
        self.names = names
        self.pattern = None if name_pattern is None else NamePattern(name_pattern)
        self.tables = {path: RecordingTable(path) for path in _tables(names)}
        told = (column for table in self.tables.values() for column in table.columns)
        of_names = self.pattern.columns if self.pattern else ()
        self.columns = tuple(dict.fromkeys((*told, *of_names)))  # of every recording
        self._start()

    def _start(self) -> None:
        self.barren: list[str] = []  # names that give no recording
        self.models: list[str] = []  # names that give a model instead
        self.unlisted = LeftUnlisted()
        self.first_remote: dict[str, list[RemoteFile]] = {}  # of each bucket or host
        self.repeated, self.unmatched, self.contradicted = Tally(), Tally(), Tally()
        self._matched = False

    def __iter__(self) -> Iterator[ListedRecording]:
        self._start()
        for name in self.names:
            repeated, found = len(self.unlisted.repeated), False
            paths = list(_expanded(name))
            for path in paths:
                for listed in self._listed(path):
                    found = True
                    self._note_remote(listed.source)
                    yield listed
            if not found:
                if len(self.unlisted.repeated) == repeated:
                    self.barren.append(name)
                local = [path for path in paths if isinstance(path, Path)]
                self.models += [str(path) for path in local if find_model(path) or runs_in(path)]
        if self.pattern and self.unmatched.count and not self._matched:
            raise InputError(
                f"--name-pattern {self.pattern.text!r}: no name matches it, such as "
                f"{self.unmatched}. {HELP}."
            )

    def _listed(self, path: Path | RemoteFile) -> Iterator[ListedRecording]:
        if table := self.tables.get(path):
            for file, told, error in table:
                yield ListedRecording(file, self._columns(file, told), error)
        else:
            for file in audio_files(path, self.unlisted):
                yield ListedRecording(file, self._columns(file, NO_COLUMNS))

    def _note_remote(self, file: Path | RemoteFile) -> None:
        if isinstance(file, RemoteFile):
            first = self.first_remote.setdefault(file.host, [])
            if len(first) < FIRST:
                first.append(file)

    def _columns(self, file: Path | RemoteFile, told: Mapping[str, str]) -> Mapping[str, str]:
        """Every column: as the table tells it, else as the name does, else empty."""
        if not self.columns:
            return NO_COLUMNS
        of_name = self.pattern.read(file) if self.pattern else NO_COLUMNS
        if of_name is None:
            self.unmatched.add(str(file))
            of_name = NO_COLUMNS
        self._matched |= bool(of_name)
        if any(told.get(column, "") not in ("", text) for column, text in of_name.items()):
            self.contradicted.add(str(file))
        return {name: told.get(name) or of_name.get(name, "") for name in self.columns}

    @property
    def complete(self) -> bool:
        """True if every name gave recordings, and none was left out of folders and tables."""
        faulty = any(table.faults.count for table in self.tables.values())
        return not (self.barren or self.unlisted.lost or faulty)

    def sentences(self) -> list[str]:
        """A line for each kind that was left out, and notes."""
        lines = [f"left out {name}: no audio there" for name in self.barren]
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


def _tables(names: Sequence[str]) -> Iterator[Path | RemoteFile]:
    """The tables among names. Others that a glob such as `night/*` finds are no tables."""
    for name in filter(is_table_name, names):
        for path in _expanded(name):
            if isinstance(path, RemoteFile) or not path.is_dir():
                yield path


def _expanded(name: str) -> Iterator[Path | RemoteFile]:
    if isinstance(remote := place(name), RemoteFile):
        try:
            yield from remote.matches()
        except InputError as error:
            raise named(remote, error) from error
        return
    name = str(remote) if is_url(name) else name
    if os.path.lexists(name) or not glob.has_magic(name):
        yield Path(name)
        return
    matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207  names stay as they are typed
    yield from map(Path, matches)
