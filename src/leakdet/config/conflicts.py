"""Checks of what a training asks of `lightning.Trainer` and of this machine; no torch is loaded."""

from collections.abc import Mapping
from typing import Any

from leakdet.config import TrainConfig, TrainerFlags
from leakdet.core.errors import SettingsError
from leakdet.core.process import check_count


def check_trainer(config: TrainConfig) -> None:
    """Raise `SettingsError` where a flag of the trainer cannot be used here."""
    flags = TrainerFlags.of(config.trainer)
    check_processes(config)
    if not flags.limit_train_batches:
        raise SettingsError("trainer.limit_train_batches=0: nothing would be trained. Remove it.")
    check_precision(config.trainer)
    check_cuda_graphs(config)
    if config.trainer.get("profiler") is not None:
        raise SettingsError(
            f"trainer.profiler={config.trainer['profiler']}: Lightning's profilers print nothing "
            "here. Use profile=phases, a table of where the time goes, profile=trace or nvtx."
        )
    partial = partial_validation(config.trainer)
    if partial:
        raise SettingsError(
            f"{', '.join(partial)}: a model cannot be selected on a part of the validation "
            "recordings. Remove it; trainer=debug is a quick trial."
        )


def check_precision(trainer: Mapping[str, Any]) -> None:
    """Raise `SettingsError` for weights in half precision: losses and scores are of float32."""
    precision = str(trainer.get("precision", ""))
    if precision in ("16-true", "bf16-true", "transformer-engine", "transformer-engine-float16"):
        raise SettingsError(
            f"trainer.precision={precision}: the weights stay in float32. Give 16-mixed or "
            "bf16-mixed, which compute in half precision on a GPU; or leave it out."
        )


def check_cuda_graphs(config: TrainConfig) -> None:
    """Raise `SettingsError` where gradients that CUDA graphs overwrite would be added up."""
    together = TrainerFlags.of(config.trainer).accumulate_grad_batches
    if config.compile and config.compile_mode == "reduce-overhead" and together != 1:
        raise SettingsError(
            "compile_mode=reduce-overhead: its CUDA graphs overwrite the gradients that "
            f"trainer.accumulate_grad_batches={together} adds up. Use compile_mode=default."
        )


def check_processes(config: TrainConfig) -> None:
    """Raise `SettingsError` for far more processes than this machine has cores.

    Two ranks are always allowed, as a trial of distributed training.
    """
    flags = TrainerFlags.of(config.trainer)
    devices = str(flags.devices)
    if flags.accelerator == "cpu" and devices.isdecimal():
        check_count("trainer.devices", int(devices), per_core=1, always=2)
    check_count("data.workers", config.data.workers)


def partial_validation(trainer: Mapping[str, Any]) -> list[str]:
    """The settings, `trainer.name=value`, that make Lightning validate on a part only."""
    flags = TrainerFlags.of(trainer)
    # 1.0 is all batches, but 1 is one batch
    whole = isinstance(flags.limit_val_batches, float) and flags.limit_val_batches == 1.0
    names = [] if whole else ["limit_val_batches"]
    names += [name for name in ("overfit_batches", "fast_dev_run") if getattr(flags, name)]
    return [f"trainer.{name}={getattr(flags, name)}" for name in names]
