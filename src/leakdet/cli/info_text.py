"""The text of `leakdet info` for a path, whose kind follows from the files there."""

from collections.abc import Callable, Iterator
from pathlib import Path

from leakdet.cli.model_lines import model_lines
from leakdet.cli.run_lines import (
    crossval_lines,
    evaluation_lines,
    run_lines,
    runs_lines,
    tune_lines,
)
from leakdet.cli.store_lines import split_lines, store_lines
from leakdet.errors import InputError, first_few
from leakdet.storage.model_place import MODEL_FILES, MODEL_SUFFIXES, model_kind

STORES = (".h5", ".hdf5")
KNOWN = (
    "a model file (.safetensors, .onnx), a checkpoint (.ckpt), a store (its folder or an .h5 "
    "file), or the folder of a training, search, cross-validation or evaluation"
)


def info_text(path: Path) -> str:
    """The card of a model, a store, or the folder of a run.

    Raises:
        InputError: nothing is there, it is nothing of leakdet, or it is damaged.
    """
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder. info takes {KNOWN}.")
    try:
        return "\n".join(_in_folder(path) if path.is_dir() else _of_file(path))
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        reason = f"holds files that leakdet did not write, or that are damaged ({error!r})"
        raise InputError(f"{path}: {reason}.") from error


def _of_file(path: Path) -> Iterator[str]:
    if model_kind(path) in MODEL_SUFFIXES:
        return model_lines(path)
    if path.suffix.lower() in STORES:
        return split_lines(path)
    raise InputError(
        f"{path}: a {path.suffix or 'file'} is nothing of leakdet. info takes {KNOWN}."
    )


def _in_folder(folder: Path) -> Iterator[str]:
    lines: Callable[[Path], Iterator[str]]
    if any((folder / name).exists() for name in ("study.journal", "result.json", "best.yaml")):
        lines = tune_lines
    elif (folder / "crossval.json").exists():
        lines = crossval_lines
    elif any(folder.glob("*.[hH]5")):
        lines = store_lines
    elif _is_run(folder):
        lines = run_lines
    elif (folder / "metrics.json").exists():
        lines = evaluation_lines
    else:
        runs = sorted(
            inside for inside in folder.iterdir() if not inside.is_symlink() and _is_run(inside)
        )
        if runs:
            return runs_lines(folder, runs)
        names = first_few(sorted(inside.name for inside in folder.iterdir())) or "nothing"
        raise InputError(f"{folder}: nothing of leakdet; it holds {names}. info takes {KNOWN}.")
    return lines(folder)


def _is_run(folder: Path) -> bool:
    marks = (".hydra/overrides.yaml", "checkpoints", *MODEL_FILES)
    return folder.is_dir() and any((folder / mark).exists() for mark in marks)
