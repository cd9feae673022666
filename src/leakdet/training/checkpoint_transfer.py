"""Copies a checkpoint into another run's folder, with the files and states that belong to it."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leakdet.errors import InputError
from leakdet.storage.atomic import whole_file
from leakdet.storage.torch_file import write_torch
from leakdet.training import log_names
from leakdet.training.checkpoint_io import read_checkpoint

BETTER = {log_names.BEST_F1: max, log_names.BEST_LOSS: min, log_names.BEST_SELECTED: max}
MONITORED = {
    log_names.BEST_F1: log_names.VAL_RANK,
    log_names.BEST_LOSS: log_names.VAL_LOSS,
    log_names.BEST_SELECTED: log_names.VAL_SELECTION,
    log_names.LAST: None,
}


def transfer(source: Path, folder: Path) -> Path:
    """Write the checkpoint `source` as `last.ckpt` of `folder`, and copy the best ones beside it.

    The states of its ModelCheckpoint callbacks then name the copies. The run's warnings and step
    numbers are copied into the folder above.

    A best file may be newer than `source` if the run was killed between the two writes: the better
    score counts, so that the best never gets worse. Returns the path of `last.ckpt`.
    """
    folder = folder.resolve()  # as Lightning spells it
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = read_checkpoint(source)
    for name, better in BETTER.items():
        best = source.parent / f"{name}{log_names.ENDING}"
        state = _state_of(checkpoint, name)
        if state is None:
            continue
        score = stored_score(best, name)
        if score is None:  # its file is missing or damaged
            state |= _initial_state(name, folder)
            continue
        known = state["best_model_score"]
        if known is not None:
            score = torch.as_tensor(better(float(known), float(score)))
        state |= best_state(copy_to(folder / best.name, best), score)
    for file in (log_names.WARNINGS, log_names.STEPS):
        copy_to(folder.parent / file, source.parent.parent / file)
    last = folder / f"{log_names.LAST}{log_names.ENDING}"
    last_state = _state_of(checkpoint, log_names.LAST)
    if last_state is not None:
        last_state |= {"dirpath": str(folder), "best_model_path": str(last), "last_model_path": ""}
    with whole_file(last) as partial:
        write_torch(checkpoint, partial)
    return last


def copy_to(target: Path, source: Path) -> Path:
    """`target`, written as a copy of `source` if that exists and is another file."""
    if source.is_file() and source.resolve() != target.resolve():
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as partial:
            shutil.copyfile(source, partial)
    return target


def stored_score(best: Path, name: str) -> Tensor | None:
    """The score that a best checkpoint stores of itself; None if it is missing or damaged."""
    try:
        state = _state_of(read_checkpoint(best), name)
    except InputError:
        return None
    return state["best_model_score"] if state else None


def _state_of(checkpoint: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The state of the ModelCheckpoint that writes `name`, recognised by what it monitors."""
    states: list[dict[str, Any]] = [
        state
        for key, state in checkpoint["callbacks"].items()
        if key.startswith("ModelCheckpoint") and state["monitor"] == MONITORED[name]
    ]
    return states[0] if states else None


def best_state(path: Path, score: Tensor) -> dict[str, Any]:
    """State of a ModelCheckpoint whose best checkpoint is `path`."""
    return {
        "dirpath": str(path.parent),
        "best_model_path": str(path),
        "best_model_score": score,
        "best_k_models": {str(path): score},
        "kth_best_model_path": str(path),
        "kth_value": score,
        "last_model_path": "",
    }


def _initial_state(name: str, folder: Path) -> dict[str, Any]:
    """State of a ModelCheckpoint that has no best checkpoint yet."""
    worst = torch.tensor(float("inf") if BETTER[name] is min else float("-inf"))
    return {
        "dirpath": str(folder),
        "best_model_path": "",
        "best_model_score": None,
        "best_k_models": {},
        "kth_best_model_path": "",
        "kth_value": worst,
        "last_model_path": "",
    }
