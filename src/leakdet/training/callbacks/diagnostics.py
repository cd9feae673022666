"""Diagnostics of learning: judges of what goes wrong, and the callback that asks them.

A judge is a plain function that returns a `Finding` or None.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as pl
import numpy as np
import torch
from jaxtyping import Float
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import TensorBoardLogger
from torch import Tensor

from leakdet.config import CallbacksConfig, NetworkConfig, TrainConfig
from leakdet.core.messages import LOG
from leakdet.detection.losses import any_of, chance_loss
from leakdet.detection.networks import Output
from leakdet.loading.samples import Batch
from leakdet.training import log_names
from leakdet.training.module import LeakModule
from leakdet.training.validation import BINS, ValidationResult


class Finding(NamedTuple):
    """A fault of the training: its kind, and a sentence with the cause and the next step."""

    kind: str
    text: str


class Findings:
    """The findings of a run: each kind is warned of once, and kept in warnings.txt."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / log_names.WARNINGS
        self.kinds: list[str] = []

    def begin(self, trainer: "pl.Trainer") -> None:
        """Take over the kinds that the run was warned of before it was resumed."""
        if trainer.ckpt_path is not None and self.path.exists():
            self.kinds = kinds_in(self.path.read_text(encoding="utf-8"))

    def warn(self, trainer: "pl.Trainer", finding: Finding | None) -> None:
        if finding is None or finding.kind in self.kinds:
            return
        self.kinds.append(finding.kind)
        if trainer.is_global_zero:
            line = f"epoch {trainer.current_epoch + 1}, {finding.kind}: {finding.text}"
            LOG.warning(line)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


def kinds_in(text: str) -> list[str]:
    """The kinds in the lines of a warnings.txt."""
    return re.findall(r"^epoch \d+, (\w+): ", text, flags=re.MULTILINE)


def log_numbers(trainer: "pl.Trainer", numbers: dict[str, float]) -> None:
    """Log past `pl_module.log`, whose bookkeeping costs more than most of these numbers.

    Lightning's LearningRateMonitor does the same.
    """
    for logger in trainer.loggers:
        logger.log_metrics(numbers, trainer.global_step)


CHECKS = 3  # in a row before a warning: the first checks of a good run may look the same
CONSTANT_STD = 0.01  # of leak_prob over the validation samples
LOW_F1 = 0.1
AUX_RATIO = 3.0
HEAD_CORRELATION = 0.5
SAME_SCORE = 1e-6


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
    elif (finding := binary_scores(result, config)) is not None:
        yield finding
    if samples.head_correlation is not None and samples.head_correlation < HEAD_CORRELATION:
        yield Finding(
            "heads",
            "the class head and the leak head disagree (correlation "
            f"{samples.head_correlation:.2f}), although both predict leak or no leak. Lower "
            "loss.aux_weight or set it to 0.",
        )


def binary_scores(result: ValidationResult, config: TrainConfig) -> Finding | None:
    """Leaks share one score, among false alarms: no threshold lies between a TPR of .5 and .85."""
    if not (fpr := result.rates.fpr_at_tpr(0.5)):
        return None
    leaks = np.sort(result.scores[result.is_leak])[::-1]
    half, most = (leaks[math.ceil(tpr * len(leaks)) - 1] for tpr in (0.5, 0.85))
    if half - most > SAME_SCORE:
        return None
    smoothing = "" if config.loss.label_smoothing else "loss.label_smoothing=0.05 or "
    return Finding(
        "binary_scores",
        f"the scores became binary: leaks and false alarms share the score {most:.4f} (FPR "
        f"{fpr:.3f} at a TPR of 0.5 and of 0.85), so no threshold can trade one for the other. "
        f"Try {smoothing}a lower optimizer.lr.",
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


OFF_CHANCE = 2.0  # times the chance loss, or a part of it
WELL_SCALED = (1 / 3, 3.0)  # standard deviation of a standardised batch


def off_chance(
    loss: float, chance: float, largest_logit: float, input_std: float, network: NetworkConfig
) -> Finding | None:
    """Judge the class loss of untrained weights against `chance`, the loss of equal logits.

    What to do follows from what is set, and from the standard deviation of the batch's input.
    """
    if chance / OFF_CHANCE <= loss <= chance * OFF_CHANCE:
        return None
    unset = {
        "network.standardise=true": not network.standardise,
        "network.input_norm=level_free": network.input_norm != "level_free",
    }
    remedies = [setting for setting, missing in unset.items() if missing]
    if WELL_SCALED[0] <= input_std <= WELL_SCALED[1]:
        cause = (
            f"the input is well scaled (standard deviation {input_std:.2g}), so the first weights "
            "give large outputs, as network.name=linear often does. Training corrects that; if "
            "train/loss does not fall, lower optimizer.lr."
        )
    elif remedies:
        cause = (
            f"the input is badly scaled (standard deviation {input_std:.3g}, not about 1). Set "
            f"{' and '.join(remedies)}."
        )
    else:
        cause = (
            f"the input is standardised over train, yet this batch has a standard deviation of "
            f"{input_std:.3g}, not about 1. Look for silent, constant or damaged recordings."
        )
    return Finding(
        "first_batch",
        f"before the first step the class loss is {loss:.3f}, chance is {chance:.3f} (largest "
        f"logit {largest_logit:.3g}): {cause}",
    )


EXPLODING, VANISHING = 1e4, 1e-8  # mean norms


def bad_gradients(
    norms: Float[np.ndarray, " N"], clipped_at: int | float | None, half: bool = False
) -> Finding | None:
    """Judge the gradient norms of an epoch's optimiser steps, before clipping.

    `half`: the run has trainer.precision=16-mixed.
    """
    not_finite = int((~np.isfinite(norms)).sum())
    clip = "" if clipped_at else " or set trainer.gradient_clip_val=1"
    mean = float(norms.mean()) if len(norms) else 1.0
    if not_finite:
        text = f"{not_finite} of {len(norms)} gradients were not finite. Lower optimizer.lr{clip}."
        if half:
            text += (
                " With trainer.precision=16-mixed a few at the start are normal; if many, "
                "try bf16-mixed."
            )
    elif mean > EXPLODING:
        text = (
            f"gradients explode: their mean norm is {mean:.3g}. Lower optimizer.lr{clip}; look at "
            "the weights of the loss."
        )
    elif mean < VANISHING:
        text = (
            f"gradients vanish: their mean norm is {mean:.3g}. Is the loss weighted to nothing, or "
            "the input constant?"
        )
    else:
        return None
    return Finding("gradient", text)


NEAR = 0.8  # of the loss of guessing: below, much was learnt before the first check
FLAT = 0.97  # of the first loss or that of guessing, below which something was learnt
FLAT_CHECKS, STEPS = 5, 50  # after the warm-up, before a loss is called flat
LEAST = 1e-6
LAST_SHARE = 0.9  # of the run, after which a low rate is the schedule's end


def low_rate(rate: float, done: float) -> Finding | None:
    """Judge a learning rate after the share `done` of the run's optimiser steps."""
    if rate >= LEAST or done >= LAST_SHARE:
        return None
    return Finding(
        "learning_rate",
        f"the learning rate is {rate:.3g} after {done:.0%} of the run: the weights hardly change. "
        "See optimizer.lr and optimizer.warmup_epochs; find_lr=true proposes a rate.",
    )


def flat_loss(
    history: Sequence[Mapping[str, Any]], guessing: float, config: TrainConfig
) -> Finding | None:
    """Judge whether the class loss in training has stayed near `guessing`, that of equal logits."""
    rows = [row for row in history if row["epoch"] >= config.optimizer.warmup_epochs]
    if len(rows) < FLAT_CHECKS or rows[-1]["step"] - rows[0]["step"] < STEPS:
        return None
    losses = [float(row[log_names.TRAIN_CLASS_LOSS]) for row in history]
    if losses[0] <= NEAR * guessing or min(losses) <= FLAT * min(losses[0], guessing):
        return None
    finder = "" if config.find_lr else " (find_lr=true proposes one)"
    return Finding(
        "flat_loss",
        f"the class loss in training was {losses[0]:.3f} at the first check and is "
        f"{losses[-1]:.3f} after {len(losses)}, never below {min(losses):.3f}; guessing has "
        f"{guessing:.3f}: nothing is learnt. Try another "
        f"optimizer.lr{finder} and a larger network; listen whether the recordings with a leak "
        "differ from the others, and whether their labels are right.",
    )


FALLING_CHECKS = 3  # in a row, the first of the fall included
BEYOND_NOISE = 4.0  # standard errors of a difference of two rates


def overfit(history: Sequence[Mapping[str, Any]], leaks: int) -> Finding | None:
    """Judge whether fewer of `leaks` leaks are found while the training loss falls.

    The latest checks count in which the loss fell each time and the true-positive rate at the
    smallest measurable false-positive rate never rose: at least CHECKS of them, and a fall of the
    rate that so few leaks do not give by luck.
    """
    losses: list[float] = []
    rates: list[float] = []
    for row in reversed(history):
        loss, rate = row[log_names.TRAIN_LOSS], row.get(log_names.VAL_TPR_LEAST_FPR)
        if rate is None or (losses and not (loss > losses[-1] and rate >= rates[-1])):
            break
        losses.append(loss)
        rates.append(rate)
    if len(rates) < FALLING_CHECKS or rates[-1] - rates[0] <= BEYOND_NOISE * _error(rates, leaks):
        return None
    return Finding(
        "overfit",
        f"train loss fell in {len(losses)} checks in a row ({losses[-1]:.3f} to {losses[0]:.3f}) "
        "while the leaks found at the smallest measurable false-alarm rate fell too "
        f"({rates[-1]:.3f} to {rates[0]:.3f}): the network memorises the training recordings. "
        "Raise network.dropout, augment.eq_db or optimizer.weight_decay, or bring more recordings.",
    )


def _error(rates: Sequence[float], leaks: int) -> float:
    """Standard error of the difference of the first and the last rate, were they equal."""
    common = (rates[0] + rates[-1]) / 2
    return float((2 * common * (1 - common) / max(1, leaks)) ** 0.5)


class Diagnostics(Callback):
    """Measures the first batch and the gradients, and asks the judges at checks and epochs' ends.

    Each switch leaves out its part: first_batch, gradient_monitor, rate_watch, collapse, overfit.
    Norms of gradients stay on the device until an epoch ends, so that no step waits for them.
    """

    def __init__(self, findings: Findings, on: CallbacksConfig) -> None:
        self.findings, self.on = findings, on
        self.streak: dict[str, int] = {}  # checks in a row by the kind of their fault
        self.parameters: dict[str, Tensor] = {}
        self.norms: list[Tensor] = []  # of the epoch's steps
        self.of_layers: dict[str, Tensor] = {}  # in the epoch's first step

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self.findings.begin(trainer)
        self.parameters = dict(pl_module.named_parameters())
        self.norms = [norm.to(pl_module.device) for norm in self.norms]  # of a resumed epoch

    def on_train_epoch_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self.norms, self.of_layers = [], {}

    def on_train_batch_start(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", batch: Any, batch_idx: int
    ) -> None:
        """Run one forward pass before the first step of a fresh network."""
        fresh = self.on.first_batch and trainer.global_step == 0 and batch_idx == 0
        if not fresh or not isinstance(pl_module, LeakModule) or not isinstance(batch, Batch):
            return
        if pl_module.config.init_from is None and len(batch.class_id):
            numbers, finding = first_batch(pl_module, batch)
            log_numbers(trainer, numbers)
            self.findings.warn(trainer, finding)

    def on_before_optimizer_step(
        self,
        trainer: "pl.Trainer",
        pl_module: "pl.LightningModule",
        optimizer: torch.optim.Optimizer,
    ) -> None:
        if not self.on.gradient_monitor:
            return
        gradients = {n: p.grad for n, p in self.parameters.items() if p.grad is not None}
        norms = torch._foreach_norm(list(gradients.values()))
        self.norms.append(torch.stack(norms).norm())
        if not self.of_layers:
            self.of_layers = dict(zip(gradients, norms, strict=True))
        every = trainer.log_every_n_steps  # type: ignore[attr-defined]
        if trainer.loggers and every and (trainer.global_step + 1) % every == 0:
            log_numbers(trainer, {log_names.GRADIENT_NORM: float(self.norms[-1])})

    def on_validation_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        """Add the norms to the check's row of the history."""
        if self.norms and isinstance(pl_module, LeakModule):
            norms = torch.stack(self.norms)
            summary = torch.stack([norms.mean(), norms.min(), norms.max()]).tolist()
            names = (log_names.GRADIENT_MEAN, log_names.GRADIENT_MIN, log_names.GRADIENT_MAX)
            pl_module.note(dict(zip(names, summary, strict=True)))

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if not isinstance(pl_module, LeakModule) or pl_module.latest is None:
            return
        history, latest, config = pl_module.history, pl_module.latest, pl_module.config
        if self.on.rate_watch and config.init_from is None:
            self.findings.warn(trainer, flat_loss(history, guessing_loss(pl_module), config))
        if self.on.collapse:
            self._judge_predictions(trainer, latest, config)
        if self.on.overfit:
            self.findings.warn(trainer, overfit(history, int(latest.is_leak.sum())))

    def _judge_predictions(
        self, trainer: "pl.Trainer", latest: ValidationResult, config: TrainConfig
    ) -> None:
        """Warn of a fault that CHECKS checks in a row have, and draw histograms."""
        if "learning_rate" in self.findings.kinds:
            return  # weights that never change look like every collapse; the cause is known
        faults = list(collapse(latest, config))
        self.streak = {fault.kind: self.streak.get(fault.kind, 0) + 1 for fault in faults}
        for fault in faults:
            if self.streak[fault.kind] >= CHECKS:
                self.findings.warn(trainer, fault)
        for logger in trainer.loggers if trainer.is_global_zero else ():
            if isinstance(logger, TensorBoardLogger):
                add_histograms(logger, latest)

    def on_train_epoch_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.norms:
            self._judge_gradients(trainer)
            norms = {f"{log_names.GRADIENT_LAYER}{name}": n for name, n in self.of_layers.items()}
            log_numbers(trainer, {name: float(norm) for name, norm in norms.items()})
            self.norms = []
        if self.on.rate_watch:  # now, when a warm-up has begun to rise
            groups = [group for each in trainer.optimizers for group in each.param_groups]
            done = trainer.global_step / max(1.0, float(trainer.estimated_stepping_batches))
            self.findings.warn(trainer, low_rate(max(group["lr"] for group in groups), done))

    def on_exception(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", exception: BaseException
    ) -> None:
        """Name the cause where a run ends because its loss is NaN."""
        if self.norms and isinstance(exception, Exception):
            self._judge_gradients(trainer)

    def _judge_gradients(self, trainer: "pl.Trainer") -> None:
        norms = torch.stack(self.norms).cpu().double().numpy()
        half = trainer.precision == "16-mixed"
        self.findings.warn(trainer, bad_gradients(norms, trainer.gradient_clip_val, half))

    def state_dict(self) -> dict[str, Any]:
        norms = torch.stack(self.norms).tolist() if self.norms else []
        return {"streak": self.streak, "norms": norms}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.streak = dict(state_dict["streak"])
        self.norms = list(torch.tensor(state_dict["norms"]))


@torch.no_grad()
def first_batch(module: LeakModule, batch: Batch) -> tuple[dict[str, float], Finding | None]:
    """Numbers of a forward pass of the untrained network, and what they tell of its input."""
    network, settings = module.network.eval(), module.config.network
    output, input_std = (
        network(batch.mel.float()),
        float(network.input(batch.mel.float()).std()),
    )
    network.train()
    unweighted = batch._replace(weight=torch.ones_like(batch.weight))
    parts = module.loss(output, unweighted, module.weights)
    chance = chance_loss(batch.class_id, module.weights, module.config.loss)
    numbers = {
        log_names.FIRST_CLASS_LOSS: float(parts.class_loss),
        log_names.FIRST_LEAK_LOSS: float(parts.leak_loss),
        log_names.FIRST_CHANCE_LOSS: chance,
        log_names.FIRST_LEAK_SHARE: float(any_of(batch.class_id, module.leaks).float().mean()),
        log_names.FIRST_INPUT_STD: input_std,
        **head_numbers(output, module.leaks, both=module.blend != 1.0),
    }
    largest = float(output.class_logits.abs().max())
    return numbers, off_chance(float(parts.class_loss), chance, largest, input_std, settings)


def head_numbers(output: Output, leaks: Sequence[int], both: bool) -> dict[str, float]:
    """Range of the logits and predicted share of leaks of the class head; `both`: the leak head's.

    Without an auxiliary loss the leak head is never trained, and nothing is told of it.
    """
    called_leaks = any_of(output.class_logits.argmax(-1), leaks)
    ranges = dict(zip(log_names.FIRST_LOGITS, output.class_logits.aminmax(), strict=True))
    mixes = {log_names.FIRST_PREDICTED: called_leaks.float().mean()}
    if both:
        ranges |= dict(zip(log_names.FIRST_LEAK_LOGITS, output.leak_logit.aminmax(), strict=True))
        mixes[log_names.FIRST_PREDICTED_LEAKS] = (output.leak_logit > 0).float().mean()
    return {name: float(value) for name, value in (ranges | mixes).items()}


def guessing_loss(module: LeakModule) -> float:
    """The class loss of equal logits, over the classes as training draws them."""
    weights, config = module.weights.cpu(), module.config.loss
    shares = enumerate(module.data.train_mix)
    return float(
        sum(share * chance_loss(torch.tensor([n]), weights, config) for n, share in shares)
    )


def add_histograms(logger: TensorBoardLogger, result: ValidationResult) -> None:
    """Draw recordings' scores, and of samples, which stay on the device, the bins of theirs."""
    samples = result.samples
    logger.experiment.add_histogram(log_names.VAL_SCORE_HISTOGRAM, result.scores, result.step)
    logger.experiment.add_histogram_raw(
        log_names.VAL_PROB_HISTOGRAM,
        min=0.0,
        max=1.0,
        num=samples.count,
        sum=samples.count * samples.mean,
        sum_squares=samples.count * (samples.std**2 + samples.mean**2),
        bucket_limits=[(number + 1) / BINS for number in range(BINS)],
        bucket_counts=list(samples.histogram),
        global_step=result.step,
    )
