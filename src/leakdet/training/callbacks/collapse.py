"""Warns of collapsed predictions: constant, inverted, single-class, or without the class head."""

from collections.abc import Iterator
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import TensorBoardLogger

from leakdet.config import TrainConfig
from leakdet.training import log_names
from leakdet.training.callbacks.findings import Finding, Findings
from leakdet.training.module import LeakModule
from leakdet.training.sample_summary import BINS, SampleSummary
from leakdet.training.validation_result import ValidationResult

CHECKS = 3  # in a row before a warning: the first checks of a good run may look the same
CONSTANT_STD = 0.01  # of leak_prob over the validation samples
LOW_F1 = 0.1
AUX_RATIO = 3.0
HEAD_CORRELATION = 0.5


class Collapse(Callback):
    """Warns of what `collapse` finds in CHECKS checks in a row, and draws histograms.

    TensorBoard gets one of the samples' probabilities and one of the recordings' scores.
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.streak: dict[str, int] = {}

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if not isinstance(pl_module, LeakModule) or pl_module.latest is None:
            return
        if "learning_rate" in self.findings.kinds:
            return  # weights that never change look like every collapse; the cause is known
        result = pl_module.latest
        found = list(collapse(result, pl_module.config))
        self.streak = {finding.kind: self.streak.get(finding.kind, 0) + 1 for finding in found}
        for finding in found:
            if self.streak[finding.kind] >= CHECKS:
                self.findings.warn(trainer, finding)
        if trainer.is_global_zero:
            for logger in trainer.loggers:
                if isinstance(logger, TensorBoardLogger):
                    logger.experiment.add_histogram(
                        log_names.VAL_SCORE_HISTOGRAM, result.scores, result.step
                    )
                    _add_samples(logger, result.samples, result.step)

    def state_dict(self) -> dict[str, Any]:
        return {"streak": self.streak}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.streak = dict(state_dict["streak"])


def collapse(result: ValidationResult, config: TrainConfig) -> Iterator[Finding]:
    """Faults of the predictions; of several findings with one cause only the cause.

    Advice names no setting that is set already.
    """
    cause = _cause(result, config)
    if cause is not None:
        yield cause
        return
    samples, positives = result.samples, int(result.is_leak.sum())
    if samples.predicted_leak_share in (0.0, 1.0):
        which = "leak" if samples.predicted_leak_share else "no leak"
        yield Finding(
            "one_class",
            f"every sample is predicted as {which} (leak_prob {samples.mean:.3f} +- "
            f"{samples.std:.3f}, recordings from {result.scores.min():.3f} to "
            f"{result.scores.max():.3f}). Look at the class balance that the run prints"
            + ("; data.sampling=balanced evens it." if config.data.sampling == "natural" else "."),
        )
    elif result.f1 < LOW_F1 and positives > 0:
        policy = config.decision.policy
        advice = (
            "The threshold is the best one for F1 already: the scores do not tell leaks apart."
            if policy == "max_f1"
            else f"See the threshold, which decision.policy={policy} sets; max_f1 fits it for F1."
        )
        yield Finding(
            "low_f1",
            f"recording F1 is {result.f1:.3f} although {positives} recordings are leaks. {advice}",
        )
    if samples.head_correlation is not None and samples.head_correlation < HEAD_CORRELATION:
        yield Finding(
            "heads",
            "the class head and the leak head disagree (correlation "
            f"{samples.head_correlation:.2f}), although both predict leak or no leak. Lower "
            "loss.aux_weight or set it to 0.",
        )


def _cause(result: ValidationResult, config: TrainConfig) -> Finding | None:
    """A finding that explains all others."""
    samples, positives = result.samples, int(result.is_leak.sum())
    if samples.std < CONSTANT_STD:
        finder = "" if config.find_lr else " (find_lr=true)"
        scale = "" if config.network.standardise else ", and network.standardise=true"
        return Finding(
            "constant",
            f"leak_prob hardly differs between samples (mean {samples.mean:.3f}, deviation "
            f"{samples.std:.4f}): the network has learnt nothing or collapsed. Look at train/loss; "
            f"try another optimizer.lr{finder}{scale}.",
        )
    chance_error = auroc_error(positives, len(result.is_leak) - positives)
    if result.auroc is not None and result.auroc < 0.5 - 2 * chance_error:
        return Finding(
            "inverted",
            f"recordings rank the wrong way round (AUROC {result.auroc:.3f}): leaks get lower "
            "scores than the rest. Compare labels.leak and the class names of train and val; "
            "listen to the worst-ranked recordings.",
        )
    class_loss, aux_loss = result.val_loss[1], config.loss.aux_weight * result.val_loss[2]
    if aux_loss > AUX_RATIO * class_loss:
        return Finding(
            "auxiliary",
            f"the weighted auxiliary loss ({aux_loss:.3f}) is more than {AUX_RATIO:g} times the "
            f"class loss ({class_loss:.3f}): the class head is hardly trained. Lower "
            "loss.aux_weight (0.05 to 0.3 is usual).",
        )
    return None


def auroc_error(positives: int, negatives: int) -> float:
    """Standard error of the AUROC of random scores (Mann-Whitney)."""
    return float(
        ((positives + negatives + 1) / (12 * max(1, positives) * max(1, negatives))) ** 0.5
    )


def _add_samples(logger: TensorBoardLogger, samples: SampleSummary, step: int) -> None:
    """Draw the samples' histogram from its bins: the probabilities stayed on the device."""
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
