"""Audio files among paths, folders and globs."""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from leakdet.acoustics.audio import is_audio_name
from leakdet.errors import InputError, first_few

MODEL_SUFFIXES = (".safetensors", ".ckpt", ".pth")


def audio_files(path: Path) -> Iterator[Path]:
    """The path itself, whatever its name; of a folder the audio below it, in the order of names.

    Hidden files and folders are left out.
    """
    if not path.is_dir():
        yield path
        return
    for root, folders, names in os.walk(path):
        folders[:] = sorted(filter(_is_visible, folders))
        files = (Path(root, name) for name in sorted(filter(_is_visible, names)))
        yield from filter(is_audio_name, files)


def _is_visible(name: str) -> bool:
    """Not hidden, as waste baskets and the shadows of macOS are."""
    return not name.startswith(".") and name != "__MACOSX"


def named_files(names: Iterable[str]) -> Iterator[Path]:
    """`audio_files` of paths and globs, each file once. A name that exists is never a glob."""
    seen: set[str] = set()
    for name in names:
        for path in _expanded(name):
            for file in audio_files(path):
                if str(file) not in seen:
                    seen.add(str(file))
                    yield file


def checked_files(names: Sequence[str], model: Path, out: Path | None) -> tuple[int, list[str]]:
    """How many files `named_files` gives, and the names that give none.

    Raises:
        InputError: several models, no audio at all, or an output that is an input.
    """
    models = [name for name in names if name.endswith(MODEL_SUFFIXES)]
    if models:
        raise InputError(
            "predict takes one model, and these are models too: "
            f"{first_few([str(model), *models])}. "
            "The newest run is runs/train/latest."
        )
    if out is not None and out.is_dir():
        raise InputError(f"--out {out}: this is a folder; name a file in it.")
    files: set[str] = set()
    barren = []
    for name in names:
        has_audio = False
        for file in named_files([name]):
            has_audio = True
            files.add(str(file))
            if out is not None and out.exists() and file.exists() and out.samefile(file):
                raise InputError(f"--out {out}: this is one of the recordings; name another file.")
        barren += [] if has_audio else [name]
    if out is not None and out.exists() and model.exists() and out.samefile(model):
        raise InputError(f"--out {out}: this is the model; name another file.")
    if not files:
        raise InputError(f"no audio found in {first_few(names)}.")
    return len(files), barren


def _expanded(name: str) -> Iterator[Path]:
    if os.path.lexists(name) or not glob.has_magic(name):
        yield Path(name)
        return
    matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207  names stay as they are typed
    yield from map(Path, matches)
