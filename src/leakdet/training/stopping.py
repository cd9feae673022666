"""The end of a training: by the best check on val, or after a fixed number of passes over train.

A threshold, and a choice among checks, made on a handful of validation recordings is noise: then
a fixed number of passes and the threshold 0.5 do better (docs/results.md).
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from leakdet.config import DecisionConfig, StopConfig, TrainConfig, TrainerFlags
from leakdet.training.step_size import with_batch_size

if TYPE_CHECKING:
    from leakdet.training.datamodule import LeakDataModule

FEW_RECORDINGS = 20  # for validation; below, stop.name=auto is fixed


def stop_name(stop: StopConfig, val_recordings: int) -> str:
    """`val` or `fixed`, as it applies with so many validation recordings."""
    if stop.name != "auto":
        return stop.name
    return "fixed" if val_recordings < FEW_RECORDINGS else "val"


def needs_val(config: TrainConfig, val_recordings: int) -> bool:
    """True if val chooses the checkpoint or fits threshold or calibration, and so may not train."""
    fitted = config.decision.policy not in ("auto", "fixed")
    calibrated = config.decision.calibration != "none"
    return stop_name(config.stop, val_recordings) == "val" or fitted or calibrated


def resolved(config: TrainConfig, data: "LeakDataModule") -> TrainConfig:
    """The settings as they apply to these recordings: no `auto` in stop.name and decision.policy.

    Under `fixed` they also have the number of epochs, and batches small enough for stop.batches.
    The batch size is never 0. Applied twice, it changes nothing more.
    """
    config = with_batch_size(config)
    stop = replace(config.stop, name=stop_name(config.stop, data.splits.val.recordings))
    decision = _decision(config.decision, stop.name)
    if stop.name == "val":
        return replace(config, stop=stop, decision=decision)
    epochs = TrainerFlags.of(config.trainer).max_epochs
    epochs = stop.passes if epochs < 0 else min(epochs, stop.passes)
    most = max(1, len(data.train_samples) // stop.batches)
    return replace(
        config,
        stop=stop,
        decision=decision,
        data=replace(config.data, batch_size=min(config.data.batch_size, most)),
        trainer={**config.trainer, "max_epochs": epochs},
    )


def _decision(decision: DecisionConfig, stop: str) -> DecisionConfig:
    if decision.policy != "auto":
        return decision
    if stop == "val":
        return replace(decision, policy="max_f1")
    return replace(decision, policy="fixed", threshold=0.5)
