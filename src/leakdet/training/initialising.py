"""Continuing to learn: a new training that begins with the weights of a trained model, on new data."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakdet.config import INIT_PARTS, TrainConfig
from leakdet.errors import InputError, SettingsError
from leakdet.storage.bundle import load_detector
from leakdet.training.checkpoint_io import read_checkpoint

if TYPE_CHECKING:
    from leakdet.training.module import LeakModule


def initialise(module: "LeakModule", source: Path, config: TrainConfig) -> None:
    """Give the module the source's weights, its input layer's statistics included, and what `init_reset` leaves to be kept.

    Raises:
        InputError: no model, or one of another signal, network or vocabulary.
        SettingsError: a model file has no optimiser, schedule or best score to keep.
    """
    model = load_detector(source)
    data = module.data
    if model.signal and data.train_split.signal and model.signal != data.train_split.signal:
        differing = "; ".join(model.signal.differences(data.train_split.signal))
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
    try:
        module.network.load_state_dict(model.network.state_dict(), strict=True)
    except RuntimeError as error:
        raise InputError(f"{source}: its weights do not fit network={config.network.name}: {error}") from error
    kept = [part for part in INIT_PARTS if part not in config.init_reset]
    if kept:
        module.inherited = _state(source, kept)


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
