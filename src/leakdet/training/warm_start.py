"""Warm start: a new training from a trained model's weights and, if asked, optimiser state."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import ModelCheckpoint
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from leakdet.config import INIT_PARTS, NetworkConfig, TrainConfig
from leakdet.detection.networks import Network
from leakdet.errors import InputError, SettingsError
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.model_place import model_kind
from leakdet.training import log_names
from leakdet.training.checkpoint_io import read_checkpoint
from leakdet.training.checkpoint_transfer import BETTER, best_state, copy_to, stored_score
from leakdet.training.datamodule import LeakDataModule


def initialise(
    network: Network, data: LeakDataModule, source: Path, config: TrainConfig
) -> dict[str, Any]:
    """Load the weights of `source`, input statistics included; its state that `init_reset` keeps.

    Raises:
        InputError: no model, or one of another signal, network or vocabulary.
        SettingsError: a model file has no optimiser, schedule or best score to keep.
    """
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
    kept = [part for part in INIT_PARTS if part not in config.init_reset]
    return _state(source, kept, config) if kept else {}


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


def _state(source: Path, kept: list[str], config: TrainConfig) -> dict[str, Any]:
    """The parts of a checkpoint's state that the new training inherits."""
    if model_kind(source) != log_names.ENDING:
        raise SettingsError(
            f"{source}: a model file holds weights only; to keep {', '.join(kept)} give a "
            f"checkpoint (.ckpt) to init_from, or name all of {', '.join(INIT_PARTS)} in "
            "init_reset."
        )
    checkpoint = read_checkpoint(source)
    there, now = checkpoint["hyper_parameters"].get("select", "f1"), config.select
    if "best_score" in kept and there != now:
        raise SettingsError(
            f"{source}: its best score is that of select={there}, which select={now} cannot be "
            "compared with. Give the same select, or name best_score in init_reset."
        )
    state = {
        "optimizer": checkpoint["optimizer_states"],
        "schedule": checkpoint["lr_schedulers"],
        "best_score": checkpoint["callbacks"],
    }
    return {part: state[part] for part in kept}


def inherit_optimizer(optimizer: Optimizer, state: dict[str, Any], lr: float) -> None:
    """Take over the moments; learning rate, weight decay and all else stay this training's."""
    groups = [
        {**own, "lr": lr, "params": theirs["params"]}
        for own, theirs in zip(optimizer.param_groups, state["param_groups"], strict=True)
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

    Raises:
        InputError: one of them is missing or damaged.
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
