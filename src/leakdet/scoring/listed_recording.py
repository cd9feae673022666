"""The recordings that names stand for: paths, folders and globs, listed as a stream."""

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leakdet.acoustics.audio_listing import LeftUnlisted, audio_files
from leakdet.storage.model_place import find_model, runs_in

NO_COLUMNS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class ListedRecording:
    """A recording to score, with what its list tells of it.

    `columns` go on into its row. `error` says why it cannot be read, where its list knows already.
    """

    source: Path
    columns: Mapping[str, str] = field(default_factory=lambda: NO_COLUMNS)
    error: str = ""


@dataclass
class Listing:
    """The recordings of names, in their order; iterate for them, and then ask what was left out.

    Memory does not grow with their number. A recording that two names give comes twice. A name
    that exists is never a glob.
    """

    names: Sequence[str]
    columns: tuple[str, ...] = ()  # of its recordings, known before the first one
    barren: list[str] = field(default_factory=list)  # names that give no recording
    models: list[str] = field(default_factory=list)  # names that give a model instead
    unlisted: LeftUnlisted = field(default_factory=LeftUnlisted)

    def __iter__(self) -> Iterator[ListedRecording]:
        self.barren, self.models, self.unlisted = [], [], LeftUnlisted()
        for name in self.names:
            repeated, found = len(self.unlisted.repeated), False
            for path in _expanded(name):
                for file in audio_files(path, self.unlisted):
                    found = True
                    yield ListedRecording(file)
            if not found:
                if len(self.unlisted.repeated) == repeated:
                    self.barren.append(name)
                paths = _expanded(name)
                self.models += [str(path) for path in paths if find_model(path) or runs_in(path)]

    @property
    def complete(self) -> bool:
        """True if every name gave recordings, and no sound was left out of folders."""
        return not (self.barren or self.unlisted.lost)

    def sentences(self) -> list[str]:
        """A line for each kind that was left out."""
        lines = [f"left out {name}: no audio there" for name in self.barren]
        return lines + self.unlisted.sentences()


def list_recordings(names: Sequence[str]) -> Listing:
    """The recordings of paths, folders and globs, as a stream."""
    return Listing(names)


def _expanded(name: str) -> Iterator[Path]:
    if os.path.lexists(name) or not glob.has_magic(name):
        yield Path(name)
        return
    matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207  names stay as they are typed
    yield from map(Path, matches)
