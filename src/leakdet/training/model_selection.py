"""The rank of a validation check, and the check that its loss is finite."""

import math

from leakdet.errors import LeakdetError


def require_finite(loss: float, epoch: int, lr: float) -> None:
    """Raise `LeakdetError` where the validation loss is NaN or infinite."""
    if not math.isfinite(loss):
        raise LeakdetError(
            f"Training stopped in epoch {epoch + 1}: the validation loss is {loss}. Lower "
            f"optimizer.lr (now {lr:g}), or set trainer.gradient_clip_val; with "
            "trainer.precision=16-mixed, try bf16-mixed."
        )


def selection_rank(f1: float, loss: float) -> float:
    """F1 plus at most 0.001 for a low loss, which breaks ties: the higher, the better the check.

    On few validation recordings F1 is 1 after an epoch or two, long before the network has learnt
    enough; without the loss the first of equals would be kept and training would stop there.
    """
    return f1 + 1e-3 / (1.0 + loss)
