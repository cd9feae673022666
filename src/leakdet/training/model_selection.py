"""The rank of a validation check, and the check that its loss is finite."""

import math
from dataclasses import dataclass

from leakdet.config import TrainConfig
from leakdet.errors import LeakdetError


def require_finite(loss: float, epoch: int, lr: float) -> None:
    """Raise `LeakdetError` where the validation loss is NaN or infinite."""
    if not math.isfinite(loss):
        raise LeakdetError(
            f"Training stopped in epoch {epoch + 1}: the validation loss is {loss}. Lower "
            f"optimizer.lr (now {lr:g}), or set trainer.gradient_clip_val; with "
            "trainer.precision=16-mixed, try bf16-mixed."
        )


@dataclass(frozen=True)
class Selection:
    """The metric that `select` names, at the rate that it is measured at, if any."""

    name: str
    limit: float | None = None

    @classmethod
    def of(cls, config: TrainConfig) -> "Selection":
        limits = {
            "tpr_at_fpr": config.decision.max_fpr,
            "fpr_at_tpr": config.decision.min_tpr,
        }
        return cls(config.select, limits.get(config.select))

    @property
    def words(self) -> str:
        """The metric in a sentence."""
        match self.name:
            case "tpr_at_fpr":
                return f"TPR at FPR {self.limit:g}"
            case "fpr_at_tpr":
                return f"FPR at TPR {self.limit:g}"
        return {"f1": "F1", "auroc": "AUROC", "loss": "loss"}[self.name]

    def rank(self, value: float | None, loss: float) -> float:
        """Rank of a check: the higher, the better. An undefined value is the worst."""
        if self.name == "loss":
            return -loss
        if value is None:
            return -1.0
        return selection_rank(1.0 - value if self.name == "fpr_at_tpr" else value, loss)


def selection_rank(score: float, loss: float) -> float:
    """A score plus at most 0.001 for a low loss, which breaks ties: the higher, the better.

    On few validation recordings F1 is 1 after an epoch or two, long before the network has learnt
    enough; without the loss the first of equals would be kept and training would stop there.
    """
    return score + 1e-3 / (1.0 + loss)
