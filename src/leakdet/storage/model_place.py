"""Where a model lies: its own file, or the folder of the run that made it."""

from pathlib import Path
from typing import overload

from leakdet._remote import RemoteFile, named
from leakdet.errors import InputError, first_few
from leakdet.storage.onnx_packages import TO_RUN, require_packages
from leakdet.storage.readable import require_readable

# of a run folder, the best one first
# best_selected: of a run whose `select` is not F1
MODEL_FILES = ("model.safetensors", "checkpoints/best_selected.ckpt", "checkpoints/best_f1.ckpt")
MODEL_SUFFIXES = (".safetensors", ".onnx", ".ckpt", ".pth", ".pt")
RUNS = Path("runs/train")  # where conf/train.yaml puts them
LATEST = "latest"  # link there to the newest of them


def model_kind(path: Path | RemoteFile) -> str:
    """The suffix that tells the kind of a model, such as `.onnx`; capitals mean the same.

    >>> model_kind(Path("PUMPS.ONNX"))
    '.onnx'
    """
    return path.suffix.lower()


def find_model(folder: Path) -> Path | None:
    """The best model file in the folder of a run, if any."""
    return next((folder / name for name in MODEL_FILES if (folder / name).is_file()), None)


@overload
def require_model(path: Path) -> Path: ...
@overload
def require_model(path: Path | RemoteFile) -> Path | RemoteFile: ...
def require_model(path: Path | RemoteFile) -> Path | RemoteFile:
    """The model file that a path names, its own or that of a run's folder, without reading it.

    Raises:
        InputError: there is none, or what an `.onnx` file needs is not installed.
    """
    model = model_in(path)
    if isinstance(model, Path):
        require_readable(model, "model file")
    if model_kind(model) == ".onnx":
        require_packages(TO_RUN)
    return model


@overload
def model_in(path: Path, word: str = "") -> Path: ...
@overload
def model_in(path: Path | RemoteFile, word: str = "") -> Path | RemoteFile: ...
def model_in(path: Path | RemoteFile, word: str = "") -> Path | RemoteFile:
    """The model file in the folder of a run; any other path as it is. A URL is looked for.

    `word` is what stands before the path on the command line, such as `init_from=`.

    Raises:
        InputError: the folder has none, or it has several runs.
    """
    if isinstance(path, RemoteFile):
        return _model_behind(path, word)
    if not path.is_dir():
        if not path.exists() and (known := RUNS / path).exists():
            raise InputError(f"{word}{path}: there is no such model file. Did you mean {known}?")
        return path
    model = find_model(path)
    if model is None:
        refuse_several(path, word)
        names = " or ".join(MODEL_FILES)
        raise InputError(
            f"{word}{path}: there is no model in this folder; a training run has {names}."
        )
    return model


def _model_behind(url: RemoteFile, word: str) -> RemoteFile:
    try:
        inside = [url / name for name in MODEL_FILES]
        of_file = [url] if model_kind(url) in MODEL_SUFFIXES else inside
        found = next((file for file in of_file if file.exists()), None)
    except InputError as error:
        raise named(url, error, word) from error
    if found is None:
        names = " or ".join(MODEL_FILES)
        raise InputError(f"{word}{url}: there is no such model file, nor a folder with {names}.")
    return found


def refuse_several(folder: Path, word: str = "") -> None:
    """Raise `InputError` where a folder holds runs, one of which may be meant.

    `word` is what stands before the folder on the command line, such as `resume=`.
    """
    if runs := runs_in(folder):
        runs.sort(key=lambda run: run.name != LATEST)
        named = [f"{run} (the newest)" if run.name == LATEST else str(run) for run in runs]
        raise InputError(
            f"{word}{folder}: a folder of runs, of which one is to be named: {first_few(named, 5)}."
        )


def runs_in(folder: Path) -> list[Path]:
    """The folders of runs in a folder, or in the folders there."""
    inside = {path for depth in ("*", "*/*") for path in folder.glob(depth) if path.is_dir()}
    return sorted(path for path in inside if find_model(path))
