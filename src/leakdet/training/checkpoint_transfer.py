"""Bringing a checkpoint into another folder together with what its run has kept, so that its callbacks find it there."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from leakdet.errors import InputError
from leakdet.storage.atomic import whole_file
from leakdet.training import log_names
from leakdet.training.checkpoint_io import read_checkpoint

BETTER = {log_names.BEST_F1: max, log_names.BEST_LOSS: min}


def moved(found: Path, folder: Path) -> Path:
    """The checkpoint as `last.ckpt` of `folder`, the best ones beside it, and its callbacks told so.

    The warnings said so far and the numbers of every step come along, into the run folder above.

    A best file may be newer than what `found` knows of it: a run that was killed between the two writes. Its own score counts,
    so that the best never gets worse.
    """
    folder = folder.resolve()  # as Lightning spells it
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = read_checkpoint(found)
    for name, better in BETTER.items():
        best = found.parent / f"{name}{log_names.ENDING}"
        state = _state_of(checkpoint, name)
        if state is None:
            continue
        score = _own_score(best, name)
        if score is None:  # gone or damaged: what is left cannot vouch for the score
            _forget(state, folder)
            continue
        known = state["best_model_score"]
        kept = score if known is None else torch.as_tensor(better(float(known), float(score)))
        target = folder / best.name
        _bring(best, target)
        _remember(state, target, kept)
    for file in (log_names.WARNINGS, log_names.STEPS):
        _bring(found.parent.parent / file, folder.parent / file)
    last = folder / f"{log_names.LAST}{log_names.ENDING}"
    last_state = _state_of(checkpoint, log_names.LAST)
    if last_state is not None:
        last_state |= {"dirpath": str(folder), "best_model_path": str(last), "last_model_path": ""}
    with whole_file(last) as partial:
        torch.save(checkpoint, partial)
    return last


def _bring(source: Path, target: Path) -> None:
    if source.is_file() and source.resolve() != target.resolve():
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as partial:
            shutil.copyfile(source, partial)


def _state_of(checkpoint: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The state of the ModelCheckpoint that writes `name`, told by what it monitors."""
    monitor = {
        log_names.BEST_F1: log_names.VAL_RANK,
        log_names.BEST_LOSS: log_names.VAL_LOSS,
        log_names.LAST: None,
    }[name]
    for key, state in checkpoint["callbacks"].items():
        if key.startswith("ModelCheckpoint") and state["monitor"] == monitor:
            found: dict[str, Any] = state
            return found
    return None


def _own_score(best: Path, name: str) -> torch.Tensor | None:
    try:
        state = _state_of(read_checkpoint(best), name)
    except InputError:
        return None
    score: torch.Tensor | None = state["best_model_score"] if state else None
    return score


def _remember(state: dict[str, Any], path: Path, score: torch.Tensor) -> None:
    state |= {
        "dirpath": str(path.parent),
        "best_model_path": str(path),
        "best_model_score": score,
        "best_k_models": {str(path): score},
        "kth_best_model_path": str(path),
        "kth_value": score,
        "last_model_path": "",
    }


def _forget(state: dict[str, Any], folder: Path) -> None:
    worst = torch.tensor(float("inf") if state["monitor"] == log_names.VAL_LOSS else float("-inf"))
    state |= {
        "dirpath": str(folder),
        "best_model_path": "",
        "best_model_score": None,
        "best_k_models": {},
    }
    state |= {"kth_best_model_path": "", "kth_value": worst, "last_model_path": ""}
