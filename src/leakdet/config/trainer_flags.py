"""The flags of `lightning.Trainer` that leakdet itself reads."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from leakdet.config.range_checks import require

ACCELERATORS = ("auto", "cpu", "gpu", "cuda", "mps", "tpu")
NUMBERS = ("limit_train_batches", "limit_val_batches", "overfit_batches")
WHOLE_NUMBERS = ("max_epochs", "max_steps", "num_nodes", "check_val_every_n_epoch")


@dataclass(frozen=True)
class TrainerFlags:
    """Each flag as given under `trainer`, or Lightning's own default where it is absent or null."""

    accelerator: str = "auto"
    devices: Any = "auto"  # a number, a list of device numbers, or auto
    strategy: str = "auto"
    num_nodes: int = 1
    max_epochs: int = 1000  # -1: no limit
    max_steps: int = -1  # -1: no limit
    check_val_every_n_epoch: int = 1
    val_check_interval: float | int = 1.0  # float: share of an epoch; int: batches
    limit_train_batches: float | int = 1.0  # float: share of the batches; int: batches
    limit_val_batches: float | int = 1.0  # float: share of the batches; int: batches
    overfit_batches: float | int = 0.0
    fast_dev_run: bool | int = False
    gradient_clip_val: float | None = None
    enable_progress_bar: bool = True

    @classmethod
    def of(cls, trainer: Mapping[str, Any]) -> "TrainerFlags":
        """Read the flags from the settings under `trainer`.

        Raises:
            SettingsError: what leakdet itself reckons with is of another type; the rest is checked
                by Lightning, after its slow import.
        """
        names = (field.name for field in fields(cls))
        given = {name: trainer[name] for name in names if trainer.get(name) is not None}
        _check_types(given)
        return cls(**given)

    def span(self, checks: int) -> str:
        """A number of validation checks in words: as epochs, where the flags count in epochs."""
        if not isinstance(self.val_check_interval, float):
            return _counted(checks, "validation check")
        return _counted(checks * self.check_val_every_n_epoch * self.val_check_interval, "epoch")


def _check_types(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name in WHOLE_NUMBERS:
            require(isinstance(value, int), f"trainer.{name}", value, "a whole number")
        elif name in NUMBERS:
            require(isinstance(value, int | float), f"trainer.{name}", value, "a number")
        elif name == "accelerator":
            allowed = f"one of {', '.join(ACCELERATORS)}"
            require(value in ACCELERATORS, f"trainer.{name}", value, allowed)


def _counted(number: int | float, noun: str) -> str:
    return f"{number:g} {noun}" + ("" if number == 1 else "s")
