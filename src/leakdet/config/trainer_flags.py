"""The flags of `lightning.Trainer` that leakdet itself reads."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from leakdet.config.range_checks import require

ACCELERATORS = ("auto", "cpu", "gpu", "cuda", "mps", "tpu")
PRECISIONS = (
    "32-true", "bf16-mixed", "16-mixed", "64-true", "bf16-true", "16-true", "transformer-engine",
    "transformer-engine-float16", "32", "64", "16", "bf16",
)  # fmt: skip


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _share(value: Any) -> bool:
    return _whole(value, 0) or (isinstance(value, float) and 0 <= value <= 1)


def _number(value: Any) -> bool:
    return (_whole(value, 0) or isinstance(value, float)) and value >= 0


def _devices(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_whole(number, 0) for number in value)
    return bool(re.fullmatch(r"auto|-1|[1-9]\d*|\d+(,\d*)+", str(value)))


# what is allowed, in words, and the test of it
LIMIT = ("a whole number of at least 1, or -1 for no limit", lambda v: _whole(v, 1) or v == -1)
COUNT = ("a whole number of at least 1", lambda value: _whole(value, 1))
COUNT_OR_NONE = ("a whole number of at least 0", lambda value: _whole(value, 0))
SHARE = ("a number of batches, or a share from 0.0 to 1.0", _share)
SWITCH = ("true or false", lambda value: isinstance(value, bool))
ALLOWED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "accelerator": (f"one of {', '.join(ACCELERATORS)}", lambda value: value in ACCELERATORS),
    "precision": (f"one of {', '.join(PRECISIONS)}", lambda value: str(value) in PRECISIONS),
    "devices": (
        "a number of devices from 1, a list of device numbers, auto, or -1 for all",
        _devices,
    ),
    "max_epochs": LIMIT,
    "max_steps": LIMIT,
    "min_epochs": COUNT_OR_NONE,
    "min_steps": COUNT_OR_NONE,
    "num_nodes": COUNT,
    "check_val_every_n_epoch": COUNT,
    "accumulate_grad_batches": COUNT,
    "log_every_n_steps": COUNT_OR_NONE,
    "num_sanity_val_steps": ("a number of batches, or -1 for all", lambda v: _whole(v, -1)),
    "limit_train_batches": SHARE,
    "limit_val_batches": SHARE,
    "overfit_batches": SHARE,
    "val_check_interval": SHARE,
    "gradient_clip_val": ("a number of at least 0", _number),
    "benchmark": SWITCH,
    "detect_anomaly": SWITCH,
    "enable_progress_bar": SWITCH,
    "enable_model_summary": SWITCH,
    "deterministic": ("true, false or warn", lambda value: value in (True, False, "warn")),
}


@dataclass(frozen=True)
class TrainerFlags:
    """Each flag as given under `trainer`, or Lightning's own default where it is absent or null."""

    accelerator: str = "auto"
    devices: Any = "auto"  # a number, a list of device numbers, such a list as text, or auto
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
    accumulate_grad_batches: int = 1
    gradient_clip_val: float | None = None
    enable_progress_bar: bool = True

    @classmethod
    def of(cls, trainer: Mapping[str, Any]) -> "TrainerFlags":
        """Read the flags from the settings under `trainer`.

        Raises:
            SettingsError: a value is not allowed; what is not known here is checked by Lightning,
                after its slow import.
        """
        given = {name: value for name, value in trainer.items() if value is not None}
        for name, (allowed, fits) in ALLOWED.items():
            if name in given:
                require(fits(given[name]), f"trainer.{name}", given[name], allowed)
        names = (field.name for field in fields(cls))
        return cls(**{name: given[name] for name in names if name in given})

    def span(self, checks: int) -> str:
        """A number of validation checks in words: as epochs, where the flags count in epochs."""
        if not isinstance(self.val_check_interval, float):
            return _counted(checks, "validation check")
        return _counted(checks * self.check_val_every_n_epoch * self.val_check_interval, "epoch")


def _counted(number: int | float, noun: str) -> str:
    return f"{number:g} {noun}" + ("" if number == 1 else "s")
