"""What no single setting can tell: settings that contradict each other, or a check of the run itself."""

from collections.abc import Mapping
from typing import Any

from leakdet.config import TrainConfig
from leakdet.detection.losses import balance_levers
from leakdet.errors import SettingsError


def check_settings(config: TrainConfig) -> None:
    """Raises `SettingsError` where the settings cannot stand together."""
    check_balance(config)
    partial = partial_validation(config.trainer)
    if partial:
        raise SettingsError(
            f"{', '.join(partial)}: a part of the validation recordings gives no result to go by. Leave that out; "
            "trainer=debug is a quick trial."
        )


def check_balance(config: TrainConfig) -> None:
    levers = balance_levers(config.loss, config.data.sampling)
    if len(levers) > 1 and not config.loss.allow_several_balances:
        raise SettingsError(
            f"{' and '.join(levers)} each shift the class balance, and together they multiply. "
            "Keep one of them, or say loss.allow_several_balances=true."
        )


def partial_validation(trainer: Mapping[str, Any]) -> list[str]:
    """The settings, `trainer.name=value`, by which Lightning would validate on less than all recordings."""
    limit = trainer.get("limit_val_batches")
    # 1.0 is all batches, but 1 is one batch
    whole = limit is None or (isinstance(limit, float) and limit == 1.0)
    names = [] if whole else ["limit_val_batches"]
    names += [name for name in ("overfit_batches", "fast_dev_run") if trainer.get(name)]
    return [f"trainer.{name}={trainer[name]}" for name in names]
