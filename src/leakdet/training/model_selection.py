"""What a validation check is chosen by, and when its numbers are worth nothing."""

import math

from leakdet.config import TrainConfig
from leakdet.errors import LeakdetError


def require_finite(loss: float, epoch: int, config: TrainConfig) -> None:
    """Raises `LeakdetError` where the validation loss is NaN or infinite: nothing that follows could be worth anything."""
    if not math.isfinite(loss):
        raise LeakdetError(
            f"Training stopped in epoch {epoch + 1}: the validation loss is {loss}. Lower optimizer.lr (now "
            f"{config.optimizer.lr:g}), or set trainer.gradient_clip_val; with trainer.precision=16-mixed, try bf16-mixed."
        )


def selection_rank(f1: float, loss: float) -> float:
    """F1 with ties broken by the loss, which counts for less than 0.001 of it: the higher, the better the check.

    On few validation recordings F1 is 1 after an epoch or two, long before the network has learnt; the first of equals would
    be kept and training would stop there.
    """
    return f1 + 1e-3 / (1.0 + loss)
