"""Continuing to learn: a new training that begins with the weights of a trained model, on new data."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from leakdet.config import INIT_PARTS, TrainConfig
from leakdet.detection.networks import Network
from leakdet.errors import InputError, SettingsError
from leakdet.storage.atomic import whole_file
from leakdet.storage.model_file import load_mel_detector
from leakdet.training.checkpoint_io import read_checkpoint
from leakdet.training.datamodule import LeakDataModule


def initialise(
    network: Network, data: LeakDataModule, source: Path, config: TrainConfig
) -> dict[str, Any]:
    """Give the module the source's weights, its input layer's statistics included, and what `init_reset` leaves to be kept.

    Raises:
        InputError: no model, or one of another signal, network or vocabulary.
        SettingsError: a model file has no optimiser, schedule or best score to keep.
    """
    model = load_mel_detector(source, trust_network=config.network.name)
    if model.signal and data.splits.train.signal and model.signal != data.splits.train.signal:
        differing = "; ".join(model.signal.differences(data.splits.train.signal))
        raise InputError(
            f"{source}: it was trained on another signal than {data.store} (model / store): {differing}. Build the store with "
            "the model's signal."
        )
    there = (model.mel_shape, model.unit, model.labels, model.card["network"]["name"])
    here = (data.mel_shape, config.data.unit, data.labels, config.network.name)
    if there != here:
        raise InputError(
            f"{source}: window shape, unit, classes or network differ (model / this run): {there} / {here}."
        )
    _require_same_input(source, model.network, network)
    try:
        network.load_state_dict(model.network.state_dict(), strict=True)
    except RuntimeError as error:
        raise InputError(
            f"{source}: its weights do not fit network={config.network.name}: {error}"
        ) from error
    kept = [part for part in INIT_PARTS if part not in config.init_reset]
    return _state(source, kept) if kept else {}


def _require_same_input(source: Path, there: Network, here: Network) -> None:
    """What the input layer does without weights: nothing else would notice that the weights were learnt on other numbers."""
    for name, old, new in (
        ("input_norm", _input_norm(there), _input_norm(here)),
        ("time_pool", there.input.time_pool, here.input.time_pool),
    ):
        if old != new:
            raise InputError(
                f"{source}: its network.{name} is {old}, that of this run {new}: its weights were learnt on other numbers than "
                f"they would meet here. Give network.{name}={old}."
            )


def _input_norm(network: Network) -> str:
    return "level_free" if network.input.level_free else "none"


def _state(source: Path, kept: list[str]) -> dict[str, Any]:
    """The parts of a checkpoint's state that the new training inherits."""
    if source.suffix != ".ckpt":
        raise SettingsError(
            f"{source}: a model file holds weights only; to keep {', '.join(kept)} give a checkpoint (.ckpt) to init_from, "
            f"or name all of {', '.join(INIT_PARTS)} in init_reset."
        )
    checkpoint = read_checkpoint(source)
    state = {
        "optimizer": checkpoint["optimizer_states"],
        "schedule": checkpoint["lr_schedulers"],
        "best_score": checkpoint["callbacks"],
    }
    return {part: state[part] for part in kept}


def inherit_optimizer(optimizer: Optimizer, state: dict[str, Any], lr: float) -> None:
    """The moments of an earlier training; learning rate, weight decay and all other settings stay those of this one."""
    groups = [
        {**own, "lr": lr, "params": theirs["params"]}
        for own, theirs in zip(optimizer.param_groups, state["param_groups"], strict=True)
    ]
    optimizer.load_state_dict({**state, "param_groups": groups})


def inherit_schedule(optimizer: Optimizer, scheduler: LambdaLR, state: dict[str, Any]) -> None:
    """The earlier training's place on the curve of this one's length and peak."""
    scheduler.last_epoch = int(state["last_epoch"])
    for group, peak, share in zip(
        optimizer.param_groups, scheduler.base_lrs, scheduler.lr_lambdas, strict=True
    ):
        group["lr"] = peak * share(scheduler.last_epoch)


def inherit_best(callbacks: Iterable[Any], source: Path, folder: Path) -> None:
    """The best checkpoints beside `source` and their scores: only what is better replaces them."""
    for callback in callbacks:
        if not isinstance(callback, ModelCheckpoint) or callback.monitor is None:
            continue
        best = source.parent / f"{callback.filename}.ckpt"
        if not best.is_file():
            raise InputError(
                f"{source}: the best checkpoint {best.name} is not beside it, so its score cannot be kept."
            )
        states = read_checkpoint(best)["callbacks"].values()
        score = next(
            state["best_model_score"]
            for state in states
            if state.get("monitor") == callback.monitor
        )
        target = folder.resolve() / best.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as partial:
            shutil.copyfile(best, partial)
        callback.best_model_path = callback.kth_best_model_path = str(target)
        callback.best_model_score, callback.kth_value = score, torch.as_tensor(score)
        callback.best_k_models = {str(target): score}
