"""The description in a model file, and where a model lies: read and checked without torch."""

import hashlib
import importlib.util
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from safetensors import safe_open

from leakdet.core.errors import InputError, first_few, install_command
from leakdet.core.files import COPY_AGAIN, as_input_error, is_sealed, require_readable
from leakdet.core.locations import Location, RemoteFile, with_location

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
TO_RUN = ("onnx", "onnxruntime")


def require_packages(packages: Iterable[str] = PACKAGES) -> None:
    """Raise `InputError` with the command that installs what is missing of the extra `export`."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f".onnx files need {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} "
            f"not installed: {install_command('export')}"
        )


# of a run folder, the best one first
# best_selected: of a run whose `select` is not F1
MODEL_FILES = ("model.safetensors", "checkpoints/best_selected.ckpt", "checkpoints/best_f1.ckpt")
MODEL_SUFFIXES = (".safetensors", ".onnx", ".ckpt", ".pth", ".pt")
RUNS = Path("runs/train")  # where conf/train.yaml puts them
LATEST = "latest"  # link there to the newest of them


def model_kind(path: Location) -> str:
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
def require_model(path: Location) -> Location: ...
def require_model(path: Location) -> Location:
    """The model file that a path names, its own or that of a run's folder, without reading it."""
    model = model_in(path)
    if isinstance(model, Path):
        require_readable(model, "model file")
    if model_kind(model) == ".onnx":
        require_packages(TO_RUN)
    return model


@overload
def model_in(path: Path, word: str = "") -> Path: ...
@overload
def model_in(path: Location, word: str = "") -> Location: ...
def model_in(path: Location, word: str = "") -> Location:
    """The model file in the folder of a run; any other path as it is. A URL is looked for.

    `word` is what stands before the path on the command line, such as `init_from=`.
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
        raise with_location(url, error, word) from error
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


FORMAT_VERSION = 1
CARD_KEY = "leakdet"  # of the safetensors metadata, and of the checkpoint
_NEEDED = ("signal", "labels", "network", "mel_shape", "unit", "blend", "decision_rule")


@dataclass(frozen=True)
class ModelVerdict:
    """What a model is worth by its own evaluation: `grade` is good, weak, bad or unknown."""

    grade: str
    label: str  # the grade in words
    sentence: str
    split: str = ""  # whose recordings judged it
    cautions: tuple[str, ...] = ()

    @classmethod
    def of(cls, card: Mapping[str, Any]) -> "ModelVerdict":
        """The verdict in a model's description."""
        if not (verdict := card.get("verdict")):
            sentence = "The model file does not say how good it was in its own evaluation."
            return cls("unknown", "Not judged", sentence)
        return cls(
            verdict["grade"],
            verdict["label"],
            verdict["sentence"],
            verdict["split"].replace("held_out", "recordings held out of training"),
            tuple(verdict.get("cautions", ())),
        )

    @property
    def is_of_synthetic(self) -> bool:
        """True where recordings that are synthetic judged it, as those of the demo."""
        return "synthetic" in self.sentence

    def __str__(self) -> str:
        evaluation = f" (own evaluation on {self.split})" if self.split else ""
        return f"{self.label}{evaluation}. {self.sentence}"


def missing_sounds(card: Mapping[str, Any]) -> str:
    """A line on what training lacked; "" where negatives trained, or where that is unknown.

    >>> missing_sounds({"training": {"settings": {"data": {"negatives": None}}}})[:39]
    'missing  no sounds without a pipe, such'
    >>> missing_sounds({"training": {"settings": {"data": {"negatives": "synthetic"}}}})
    ''
    """
    data = (card.get("training", {}).get("settings") or {}).get("data")
    multiclass = card.get("labels", {}).get("mode") == "multiclass"  # any class may be such sounds
    if not data or multiclass or data.get("negatives") or data.get("shuffle_labels"):
        return ""
    return (
        "missing  no sounds without a pipe, such as rain or engines, trained this model: it may "
        "call them leaks (data.negatives=FOLDER, or synthetic, which misses more leaks)"
    )


def training_store(card: Mapping[str, Any]) -> Path | None:
    """The store that trained a model; None where that is unknown, or it is no longer there."""
    store = (card.get("training") or {}).get("store")
    return Path(store) if store and Path(store).exists() else None


def read_card(path: Path) -> dict[str, Any]:
    """The checked description of a `.safetensors` file."""
    with open_safetensors(path, "numpy") as file:
        card = card_in(path, file.metadata())
    check_card(path, card)
    return card


@contextmanager
def open_safetensors(path: Path, framework: str) -> Iterator[Any]:
    """Open a model file and compare its seal. What is raised on damage becomes a sentence."""
    require_readable(path, "model file")
    whole = as_input_error(path, "a whole .safetensors file", COPY_AGAIN)
    with whole, safe_open(path, framework=framework) as file:
        is_sealed(path, path.read_bytes(), COPY_AGAIN)
        yield file


def has_checksums(path: Path) -> bool:
    """True if what a model file or a checkpoint holds can be compared with what was written."""
    if model_kind(path) in (".safetensors", ".onnx"):
        return is_sealed(path, path.read_bytes(), COPY_AGAIN)
    return zipfile.is_zipfile(path)  # of which `read_torch` compares them


def card_in(path: Path, metadata: Mapping[str, str] | None) -> dict[str, Any]:
    """The description within a file's metadata. Raises `InputError` where it has none."""
    if not metadata or CARD_KEY not in metadata:
        raise InputError(f"{path}: a .safetensors file, but not a model of leakdet.")
    return parse_card(path, metadata[CARD_KEY])


def parse_card(path: Path, text: str) -> dict[str, Any]:
    """The description of a model from its text. Raises `InputError` where it is no JSON object."""
    try:
        card = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path}: its description is not JSON ({error}).") from error
    if not isinstance(card, dict):
        raise InputError(f"{path}: its description is {type(card).__name__}, not an object.")
    return card


def check_card(path: Path, card: Mapping[str, Any]) -> None:
    """Raise `InputError` for a description of another format, or one that lacks what it needs."""
    version = card.get("format_version")
    if version != FORMAT_VERSION:
        raise InputError(
            f"{path}: its format version is {version}, this leakdet reads {FORMAT_VERSION}."
        )
    lacking = [name for name in _NEEDED if name not in card]
    if lacking:
        raise InputError(f"{path}: its description lacks {lacking}.")


def file_hash(path: Path) -> str:
    """The first 12 digits of a file's SHA-256, by which rows and cards name a model."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]
