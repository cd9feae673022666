"""The recordings that a command names: paths, folders and globs, listed before any work."""

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leakdet.acoustics.audio_listing import LeftUnlisted, audio_files
from leakdet.errors import InputError, first_few
from leakdet.storage.model_place import find_model, model_kind, runs_in

MODEL_SUFFIXES = (".safetensors", ".ckpt", ".pth", ".onnx")


@dataclass
class FileList:
    """Files in the order of the names that gave them, and what gave none."""

    files: list[Path] = field(default_factory=list)
    barren: list[str] = field(default_factory=list)  # names that give no file
    unlisted: LeftUnlisted = field(default_factory=LeftUnlisted)

    @property
    def complete(self) -> bool:
        """True if every name gave files, and no sound was left out of folders."""
        return not (self.barren or self.unlisted.lost)

    def sentences(self) -> list[str]:
        """A line for each kind that was left out."""
        lines = [f"left out {name}: no audio there" for name in self.barren]
        return lines + self.unlisted.sentences()


def list_files(names: Sequence[str]) -> FileList:
    """The audio of paths, folders and globs, each file once. A name that exists is never a glob.

    Raises:
        InputError: no audio at all, or a folder that holds a model and no audio.
    """
    listed, seen, models = FileList(), set[str](), list[str]()
    for name in names:
        repeated = len(listed.unlisted.repeated)
        new = [file for path in _expanded(name) for file in audio_files(path, listed.unlisted)]
        if not new:
            if len(listed.unlisted.repeated) == repeated:
                listed.barren.append(name)
            models += [str(path) for path in _expanded(name) if find_model(path) or runs_in(path)]
        for file in new:
            if str(file) not in seen:
                seen.add(str(file))
                listed.files.append(file)
    if models:
        raise InputError(
            f"these hold models, not recordings: {first_few(models)}. One model is named, and "
            "then recordings. The newest run is runs/train/latest."
        )
    if not listed.files:
        why = "; ".join([f"no audio found in {first_few(names)}", *listed.unlisted.sentences()])
        raise InputError(f"{why}.")
    return listed


def check_files(files: Sequence[Path], model: Path, out: Path | None) -> None:
    """Refuse models among the files, and an output that is an input.

    Raises:
        InputError: says which.
    """
    models = [str(file) for file in files if model_kind(file) in MODEL_SUFFIXES]
    if models:
        raise InputError(
            "predict takes one model, and these are models too: "
            f"{first_few([str(model), *models])}. "
            "The newest run is runs/train/latest."
        )
    if out is None or not out.exists():
        return
    if out.is_dir():
        raise InputError(f"--out {out}: this is a folder; name a file in it.")
    if any(file.exists() and out.samefile(file) for file in files):
        raise InputError(f"--out {out}: this is one of the recordings; name another file.")
    if model.exists() and out.samefile(model):
        raise InputError(f"--out {out}: this is the model; name another file.")


def _expanded(name: str) -> Iterator[Path]:
    if os.path.lexists(name) or not glob.has_magic(name):
        yield Path(name)
        return
    matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207  names stay as they are typed
    yield from map(Path, matches)
