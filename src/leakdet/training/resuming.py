"""Going on with an interrupted run: which checkpoint, whether it fits, and moving its best ones into a new folder.

A checkpoint fits where settings and data are the same but for what changes no number (FREE) or only where the run ends.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from leakdet.config import TrainConfig
from leakdet.errors import InputError, SettingsError
from leakdet.training import names
from leakdet.training.checkpoint_io import read_checkpoint, write_whole

if TYPE_CHECKING:
    from leakdet.training.datamodule import LeakDataModule

RESUME_KEY = "leakdet_resume"  # of the checkpoint: what resuming needs beyond Lightning's own state
DECIDED = "LEAKDET_RESUME_FROM"  # environment variable by which a run tells its child processes
FREE = (
    "resume",
    "init_from",
    "init_reset",
    "find_lr",
    "find_batch_size",
    "patience",
    "loss_patience",
    "compile",
)
FREE_PREFIXES = ("logger", "data.store", "data.cache", "demo", "decision")
FREE_TRAINER = (
    *(
        "max_epochs",
        "max_steps",
        "max_time",
        "min_epochs",
        "min_steps",
        "accelerator",
        "devices",
        "strategy",
        "num_nodes",
    ),
    *("enable_progress_bar", "enable_model_summary", "log_every_n_steps", "num_sanity_val_steps", "profiler"),
    *("benchmark", "deterministic", "detect_anomaly"),
)
FOUND = {"optimizer.lr": "find_lr", "data.batch_size": "find_batch_size"}
ENDING = ".ckpt"
SCORES = {names.BEST_F1: max, names.BEST_LOSS: min}


def store_fingerprint(data: "LeakDataModule") -> str:
    """Twelve hex digits of what the run is trained on, wherever it lies: the recordings, their windows, labels and signal."""
    digest = hashlib.sha256()
    for split in (data.train_split, data.val_split):
        digest.update(
            f"{split.signal.hash if split.signal else None} {split.label_names} {split.mel.shape}".encode()
        )
        digest.update(np.ascontiguousarray(split.recording_offsets, dtype=np.int64).tobytes())
        digest.update(np.ascontiguousarray(split.label_id, dtype=np.int64).tobytes())
    return digest.hexdigest()[:12]


def starting_checkpoint(config: TrainConfig, data: "LeakDataModule", run_folder: Path) -> Path | None:
    """The checkpoint from which to go on, moved into `run_folder` together with the best ones; None to begin anew.

    Raises:
        InputError: `resume` names nothing that can be resumed.
        SettingsError: it was trained with other settings or on other data.
    """
    if config.resume is None:
        return None
    if "LOCAL_RANK" in os.environ:  # a child of a run on several processes goes where its parent decided
        decided = os.environ.get(DECIDED)
        return Path(decided) if decided else None
    found = _found(config, data, run_folder)
    if found is None:
        os.environ.pop(DECIDED, None)
        return None
    print(f"resume   {found}", flush=True)
    last = moved(found, run_folder / names.CHECKPOINTS)
    os.environ[DECIDED] = str(last)
    return last


def _found(config: TrainConfig, data: "LeakDataModule", run_folder: Path) -> Path | None:
    if config.resume == "auto":
        return _newest_fitting(config, data, run_folder)
    found = _given(Path(str(config.resume)))
    _require_fitting(found, config, data)
    return found


def _require_fitting(found: Path, config: TrainConfig, data: "LeakDataModule") -> None:
    differing = differences(read_checkpoint(found), config, data)
    if differing:
        raise SettingsError(
            f"{found} was trained with other settings (there / now): {'; '.join(differing)}. Give the same ones"
            f"{_said_then(found)}, or begin a new training from its weights with init_from={found}."
        )


def refuse_overwriting(run_folder: Path) -> None:
    """Raises `SettingsError` where a new run would write over another run's checkpoints."""
    kept = sorted((run_folder / names.CHECKPOINTS).glob(f"*{ENDING}"))
    if kept:
        raise SettingsError(
            f"{run_folder}: holds a run already ({kept[0].name}). Go on with it by resume=auto, or give another hydra.run.dir."
        )


def _given(place: Path) -> Path:
    if place.is_dir():
        folder = place / names.CHECKPOINTS if (place / names.CHECKPOINTS).is_dir() else place
        found = newest_whole(folder)
        if found is None:
            raise InputError(f"{place}: there is no whole checkpoint to resume from.")
        return found
    read_checkpoint(place)
    return place


def newest_whole(folder: Path) -> Path | None:
    """`last.ckpt`, or the newest whole checkpoint where it is damaged or missing; says so."""
    last = folder / f"{names.LAST}{ENDING}"
    whole: list[tuple[int, Path]] = []
    for path in sorted(folder.glob(f"*{ENDING}")):
        try:
            step = int(read_checkpoint(path)["global_step"])
        except InputError as error:
            print(f"note     {error}", flush=True)
            continue
        if path == last:
            return path
        whole.append((step, path))
    if not whole:
        return None
    found = max(whole)[1]
    print(f"note     {last} is damaged or missing; the newest whole checkpoint is {found.name}", flush=True)
    return found


def _newest_fitting(config: TrainConfig, data: "LeakDataModule", run_folder: Path) -> Path | None:
    """This folder's own run, or else the newest unfinished one beside it with the same settings and data."""
    own = newest_whole(run_folder / names.CHECKPOINTS)
    if own is not None:
        _require_fitting(own, config, data)
        return own
    others = [
        folder
        for folder in run_folder.parent.glob(f"*/{names.CHECKPOINTS}")
        if not (folder.parent / "metrics.json").exists() and any(folder.glob(f"*{ENDING}"))
    ]
    refused = ""
    for folder in sorted(others, key=_changed, reverse=True):
        found = newest_whole(folder)
        if found is None:
            continue
        differing = differences(read_checkpoint(found), config, data)
        if not differing:
            return found
        refused = refused or f"; {found} differs in (there / now) {'; '.join(differing)}{_said_then(found)}"
    print(f"resume   nothing to go on with{refused}: beginning anew", flush=True)
    return None


def _changed(folder: Path) -> float:
    return max(path.stat().st_mtime for path in folder.glob(f"*{ENDING}"))


def _said_then(checkpoint: Path) -> str:
    """The command line of the run that a checkpoint belongs to, as Hydra noted it."""
    noted = checkpoint.parent.parent / ".hydra" / "overrides.yaml"
    if not noted.is_file():
        return ""
    lines = [line.removeprefix("- ") for line in noted.read_text(encoding="utf-8").splitlines()]
    kept = [line for line in lines if line.strip("[] ") and not line.startswith("resume=")]
    return f" (then: {' '.join(kept) or 'none'})"


def differences(checkpoint: Mapping[str, Any], config: TrainConfig, data: "LeakDataModule") -> list[str]:
    """`name: there / now` of all that would make the continuation another run."""
    there, now = _flat(checkpoint.get("hyper_parameters", {})), _flat(asdict(config))
    found = [name for name, sought in FOUND.items() if now[sought]]
    differing = [
        f"{name}: {there.get(name)} / {now.get(name)}"
        for name in sorted(there.keys() | now.keys())
        if there.get(name) != now.get(name) and name not in found and not _is_free(name)
    ]
    mine, theirs = store_fingerprint(data), checkpoint.get(RESUME_KEY, {}).get("store")
    if mine != theirs:
        differing.append(f"the data's fingerprint: {theirs} / {mine}")
    return differing


def as_found(config: TrainConfig, checkpoint: Mapping[str, Any]) -> TrainConfig:
    """The settings with the rate and batch size that the run's finders chose at its beginning."""
    there = checkpoint["hyper_parameters"]
    if config.find_lr:
        config = replace(config, optimizer=replace(config.optimizer, lr=there["optimizer"]["lr"]))
    if config.find_batch_size:
        config = replace(config, data=replace(config.data, batch_size=there["data"]["batch_size"]))
    return config


def _is_free(name: str) -> bool:
    if name in FREE or name.removeprefix("trainer.") in FREE_TRAINER:
        return True
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in FREE_PREFIXES)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def moved(found: Path, folder: Path) -> Path:
    """The checkpoint as `last.ckpt` of `folder`, the best ones beside it, and its callbacks told so.

    A best file may be newer than what `found` knows of it: a run that was killed between the two writes. Its own score counts,
    so that the best never gets worse.
    """
    folder = folder.resolve()  # as Lightning spells it
    checkpoint = read_checkpoint(found)
    for name, better in SCORES.items():
        best = found.parent / f"{name}{ENDING}"
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
        if best.resolve() != target.resolve():
            write_whole(target, lambda beside, best=best: shutil.copyfile(best, beside))  # type: ignore[misc]
        _remember(state, target, kept)
    last = folder / f"{names.LAST}{ENDING}"
    last_state = _state_of(checkpoint, names.LAST)
    if last_state is not None:
        last_state |= {"dirpath": str(folder), "best_model_path": str(last), "last_model_path": ""}
    write_whole(last, lambda beside: torch.save(checkpoint, beside))
    return last


def _state_of(checkpoint: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The state of the ModelCheckpoint that writes `name`, told by what it monitors."""
    monitor = {names.BEST_F1: names.VAL_F1, names.BEST_LOSS: names.VAL_LOSS, names.LAST: None}[name]
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
    worst = torch.tensor(float("inf") if state["monitor"] == names.VAL_LOSS else float("-inf"))
    state |= {"dirpath": str(folder), "best_model_path": "", "best_model_score": None, "best_k_models": {}}
    state |= {"kth_best_model_path": "", "kth_value": worst, "last_model_path": ""}
