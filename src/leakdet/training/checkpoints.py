"""Checkpoints: read without executing them, written atomically, copied, started from."""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from leakdet.config import INIT_PARTS, NetworkConfig, TrainConfig
from leakdet.core.errors import InputError, SettingsError
from leakdet.core.files import require_readable, whole_file
from leakdet.detection.networks import Network
from leakdet.storage.model_card import model_kind
from leakdet.storage.model_file import load_mel_detector, read_torch, write_torch
from leakdet.training import log_names
from leakdet.training.datamodule import LeakDataModule


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes to a temporary sibling, then renames it.

    Lightning's own writes pass through the system's temporary folder, which may lie on another file
    system: then they are not atomic.
    """

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | os.PathLike[str],
        storage_options: Any | None = None,
    ) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with whole_file(Path(path)) as partial:
            write_torch(checkpoint, partial)

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Any | None = None,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        return read_checkpoint(Path(path))


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint as plain containers and CPU tensors; nothing in it is executed."""
    require_readable(path, "checkpoint")
    checkpoint = read_torch(path, "training checkpoint")
    if not isinstance(checkpoint, dict) or not checkpoint.keys() >= {"state_dict", "loops"}:
        raise InputError(f"{path}: not a training checkpoint of leakdet.")
    return checkpoint


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


def initialise(network: Network, data: LeakDataModule, source: Path) -> dict[str, Any]:
    """Load the weights of `source` with its input statistics, and what `init_reset` keeps."""
    config = data.config
    model = load_mel_detector(source, trust_network=config.network.name)
    signal = data.splits.train.signal
    if model.signal and signal and model.signal != signal:
        differing = "; ".join(model.signal.differences(signal))
        raise InputError(
            f"{source}: it was trained on another signal than {data.store} (model / store): "
            f"{differing}. Build the store with the model's signal."
        )
    of_model = (model.mel_shape, model.unit, model.labels, model.card["network"]["name"])
    of_run = (data.mel_shape, config.data.unit, data.labels, config.network.name)
    if of_model != of_run:
        raise InputError(
            f"{source}: window shape, unit, classes or network differ (model / this run): "
            f"{of_model} / {of_run}."
        )
    _require_same_input(source, model.network, network)
    try:
        network.load_state_dict(model.network.state_dict(), strict=True)
    except RuntimeError as error:
        widths = _different_widths(model.card["network"], config.network)
        raise InputError(
            f"{source}: its weights do not fit network={config.network.name}: {widths or error}"
        ) from error
    parts = [part for part in INIT_PARTS if part not in config.init_reset]
    return _state(source, parts, config) if parts else {}


def _different_widths(trained: dict[str, Any], config: NetworkConfig) -> str:
    """The settings that make this run's network as wide as the model's; blank if it is."""
    names = ("conv_channels", "dense")
    given = " ".join(
        f"network.{name}={trained[name]}"
        for name in names
        if trained[name] != getattr(config, name)
    )
    return f"it is of another width. Give {given}." if given else ""


def _require_same_input(source: Path, trained: Network, new: Network) -> None:
    """Check the parameter-free input settings; a mismatch would not fail `load_state_dict`."""
    for name, value, here in (
        ("input_norm", _input_norm(trained), _input_norm(new)),
        ("time_pool", trained.input.time_pool, new.input.time_pool),
    ):
        if value != here:
            raise InputError(
                f"{source}: its network.{name} is {value}, that of this run {here}, so its weights "
                f"would get another input than in training. Give network.{name}={value}."
            )


def _input_norm(network: Network) -> str:
    return "level_free" if network.input.level_free else "none"


def _state(source: Path, parts: list[str], config: TrainConfig) -> dict[str, Any]:
    """The parts of a checkpoint's state that the new training inherits."""
    if model_kind(source) != log_names.ENDING:
        raise SettingsError(
            f"{source}: a model file holds weights only; to keep {', '.join(parts)} give a "
            f"checkpoint (.ckpt) to init_from, or name all of {', '.join(INIT_PARTS)} in "
            "init_reset."
        )
    checkpoint = read_checkpoint(source)
    stored, now = checkpoint["hyper_parameters"]["select"], config.select
    if "best_score" in parts and stored != now:
        raise SettingsError(
            f"{source}: its best score is that of select={stored}, which select={now} cannot be "
            "compared with. Give the same select, or name best_score in init_reset."
        )
    state = {
        "optimizer": checkpoint["optimizer_states"],
        "schedule": checkpoint["lr_schedulers"],
        "best_score": checkpoint["callbacks"],
    }
    return {part: state[part] for part in parts}


def inherit_optimizer(optimizer: Optimizer, state: dict[str, Any], lr: float) -> None:
    """Take over the moments; learning rate, weight decay and all else stay this training's."""
    groups = [
        {**group, "lr": lr, "params": stored["params"]}
        for group, stored in zip(optimizer.param_groups, state["param_groups"], strict=True)
    ]
    optimizer.load_state_dict({**state, "param_groups": groups})


def inherit_schedule(optimizer: Optimizer, scheduler: LambdaLR, state: dict[str, Any]) -> None:
    """Start at the earlier training's step on this training's curve."""
    scheduler.last_epoch = int(state["last_epoch"])
    for group, peak, share in zip(
        optimizer.param_groups, scheduler.base_lrs, scheduler.lr_lambdas, strict=True
    ):
        group["lr"] = peak * share(scheduler.last_epoch)


def inherit_best(callbacks: Iterable[Any], source: Path, folder: Path) -> list[Path]:
    """Copy the best checkpoints beside `source` into `folder`; only better ones replace them.

    Returns the copies, which are all that the folder has until a step is made.
    """
    copies = []
    for callback in callbacks:
        name = callback.filename if isinstance(callback, ModelCheckpoint) else None
        if name not in BETTER:
            continue
        best = source.parent / f"{name}{log_names.ENDING}"
        score = stored_score(best, name)
        if score is None:
            raise InputError(
                f"{source}: the best checkpoint {best.name} is not beside it, so its score cannot "
                "be kept."
            )
        copies.append(copy_to(folder.resolve() / best.name, best))
        callback.load_state_dict(best_state(copies[-1], score))
    return [copy for copy in copies if copy.parent != source.parent.resolve()]
