"""Audio files among paths, folders and globs."""

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from leakdet.acoustics.audio import is_audio_name


def audio_files(path: Path) -> Iterator[Path]:
    """The path itself, whatever its name; of a folder the audio below it, in the order of names."""
    if not path.is_dir():
        yield path
        return
    for root, folders, names in os.walk(path):
        folders.sort()
        files = (Path(root, name) for name in sorted(names))
        yield from filter(is_audio_name, files)


def named_files(names: Iterable[str]) -> Iterator[Path]:
    """`audio_files` of paths and globs, each file once. A name that exists is never a glob."""
    seen: set[str] = set()
    for name in names:
        for path in _expanded(name):
            for file in audio_files(path):
                if str(file) not in seen:
                    seen.add(str(file))
                    yield file


def _expanded(name: str) -> Iterator[Path]:
    if os.path.lexists(name) or not glob.has_magic(name):
        yield Path(name)
        return
    matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207  names stay as they are typed
    yield from map(Path, matches)
