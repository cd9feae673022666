"""Is the network saying anything? Looked at after every validation check, over the whole split."""

from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import TensorBoardLogger

from leakdet.training import log_names
from leakdet.training.callbacks.findings import Findings
from leakdet.training.diagnostics import BINS, SampleSummary, collapse
from leakdet.training.module import LeakModule

CHECKS = 3  # in a row before it is said: the first checks of a good run may look the same


class Collapse(Callback):
    """Says what `detection.diagnostics.collapse` finds in three checks in a row. TensorBoard is given the histograms of
    samples and of recordings.
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.streak: dict[str, int] = {}

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if (
            trainer.sanity_checking
            or not isinstance(pl_module, LeakModule)
            or pl_module.latest is None
        ):
            return
        if (
            "learning_rate" in self.findings.kinds
        ):  # weights that stand still show every collapse; the cause is said
            return
        check = pl_module.latest
        positives = int(check.is_leak.sum())
        found = collapse(
            check.samples,
            check.f1,
            check.auroc,
            positives,
            len(check.is_leak) - positives,
            class_loss=check.val_loss[1],
            aux_loss=pl_module.config.loss.aux_weight * check.val_loss[2],
            score_range=(float(check.scores.min()), float(check.scores.max())),
        )
        self.streak = {kind: self.streak.get(kind, 0) + 1 for kind, _ in found}
        self.findings.say(
            trainer, [(kind, text) for kind, text in found if self.streak[kind] >= CHECKS]
        )
        if trainer.is_global_zero:
            for logger in trainer.loggers:
                if isinstance(logger, TensorBoardLogger):
                    logger.experiment.add_histogram(
                        log_names.VAL_SCORE_HISTOGRAM, check.scores, check.step
                    )
                    _add_samples(logger, check.samples, check.step)

    def state_dict(self) -> dict[str, Any]:
        return {"streak": self.streak}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.streak = dict(state_dict["streak"])


def _add_samples(logger: TensorBoardLogger, samples: SampleSummary, step: int) -> None:
    """The samples' histogram from its bins: the probabilities themselves stayed on the device."""
    logger.experiment.add_histogram_raw(
        log_names.VAL_PROB_HISTOGRAM,
        min=0.0,
        max=1.0,
        num=samples.count,
        sum=samples.count * samples.mean,
        sum_squares=samples.count * (samples.std**2 + samples.mean**2),
        bucket_limits=[(number + 1) / BINS for number in range(BINS)],
        bucket_counts=list(samples.histogram),
        global_step=step,
    )
