"""Training and validating a network: losses, optimiser, schedule, and the recording-level metrics of each check."""

import json
from dataclasses import asdict
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor
from torch.optim import AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, SequentialLR
from torchmetrics.classification import BinaryConfusionMatrix, BinaryF1Score

from leakdet.acoustics.augment import smooth_random_eq
from leakdet.config import OptimizerConfig, TrainConfig
from leakdet.detection.decision import DecisionRule, pool, rule_for_scores
from leakdet.detection.detector import window_mean
from leakdet.detection.losses import LossParts, class_weights, loss_parts
from leakdet.detection.metrics import auroc
from leakdet.detection.networks import leak_probability, make_network
from leakdet.storage.bundle import CARD_KEY, make_card
from leakdet.training import names
from leakdet.training.datamodule import Batch, LeakDataModule


class LeakModule(pl.LightningModule):
    """A network under training. `rule` is the decision rule of the latest validation check.

    At every check the rule is fitted on the validation recordings by the configured policy, and F1 and the confusion matrix
    are those of its decisions: the number that is printed is the number that the stored model gives back.
    """

    weights: Tensor

    def __init__(self, config: TrainConfig, data: LeakDataModule) -> None:
        super().__init__()
        self.save_hyperparameters(asdict(config))
        self.config, self.data = config, data
        self.network = make_network(config.network, data.sample_shape, len(data.labels.names))
        self.blend = 0.5 if config.loss.aux_weight > 0 else 1.0
        self.rule = DecisionRule(pooling=config.decision.pooling, vote_fraction=config.decision.vote_fraction)
        mix = torch.from_numpy(data.train_mix).float()
        self.register_buffer(
            "weights", class_weights(config.loss, mix, data.labels.leak_index), persistent=False
        )
        self.f1 = BinaryF1Score()
        self.confusion = BinaryConfusionMatrix()
        self._heard: list[tuple[Tensor, Tensor]] = []
        self._losses: list[Tensor] = []

    # ------------------------------------------------------------------------------------------ training

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        mel = batch.mel.float()
        if self.config.augment.eq_db > 0:
            mel = smooth_random_eq(mel, self.config.augment.eq_db, self.config.augment.eq_terms)
        parts = self._loss(self.network(mel), batch)
        values = {
            names.TRAIN_LOSS: parts.total,
            names.TRAIN_CLASS_LOSS: parts.class_loss,
            names.TRAIN_LEAK_LOSS: parts.leak_loss,
        }
        self.log_dict(values, on_step=False, on_epoch=True, batch_size=len(batch.class_id))
        return parts.total

    def _loss(self, output: Any, batch: Batch) -> LossParts:
        return loss_parts(
            output, batch.class_id, batch.weight, self.config.loss, self.weights, self.data.labels.leak_index
        )

    # ------------------------------------------------------------------------------------------ validation

    def on_validation_epoch_start(self) -> None:
        self._heard, self._losses = [], []

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        output = self.network(batch.mel.float())
        parts = self._loss(output, batch._replace(weight=torch.ones_like(batch.weight)))
        count = torch.tensor(1.0, device=self.device)
        self._losses.append(torch.stack([*parts, count]) * len(batch.class_id))
        self._heard.append(
            (leak_probability(output, self.data.labels.leak_index, self.blend), batch.recording)
        )

    def on_validation_epoch_end(self) -> None:
        if (
            self.trainer.sanity_checking
        ):  # two batches are no validation set: nothing of it may count as a result
            return
        scores, is_leak, here = self._recording_scores()
        self.rule = rule_for_scores(scores, is_leak, fitted_on="val", **decision_arguments(self.config))
        decisions = torch.from_numpy(self.rule.decide(scores)[here]).long().to(self.device)
        truth = torch.from_numpy(is_leak[here]).long().to(self.device)
        self.f1(decisions, truth)
        self.confusion(decisions, truth)
        self.log(names.VAL_F1, self.f1)
        total = self._sum_over_ranks(torch.stack(self._losses).sum(0))
        losses = dict(
            zip(
                (names.VAL_LOSS, names.VAL_CLASS_LOSS, names.VAL_LEAK_LOSS), total[:3] / total[3], strict=True
            )
        )
        cells = self.confusion.compute().flatten().float()
        self.confusion.reset()
        values = {
            **losses,
            **dict(zip(names.VAL_CONFUSION, cells, strict=True)),
            names.VAL_THRESHOLD: self.rule.threshold,
            names.VAL_RANK: selection_rank(float(self.f1.compute()), float(losses[names.VAL_LOSS])),
        }
        area = auroc(scores, is_leak)
        if area is not None:
            values[names.VAL_AUROC] = area
        self.log_dict(values)

    def _recording_scores(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Score and truth of every recording, on every rank, and the rows that this rank heard."""
        split, decision = self.data.val_split, self.config.decision
        prob = torch.cat([prob for prob, _ in self._heard])
        recording = torch.cat([recording for _, recording in self._heard]).cpu().numpy()
        here = np.unique(recording)
        window_prob = window_mean(prob, int(split.windows_per_recording[here].sum())).cpu().numpy()
        offsets = np.concatenate([[0], np.cumsum(split.windows_per_recording[here])])
        scores = torch.zeros(split.recordings, dtype=torch.float64)
        scores[torch.from_numpy(here)] = torch.from_numpy(
            pool(window_prob, offsets, decision.pooling, decision.vote_fraction)
        )
        return self._sum_over_ranks(scores).numpy(), self.data.val_is_leak, here

    def _sum_over_ranks(self, value: Tensor) -> Tensor:
        if self.trainer.world_size == 1:
            return value.cpu()
        reduced: Tensor = self.trainer.strategy.reduce(value.to(self.device), reduce_op="sum")
        return reduced.cpu()

    # ------------------------------------------------------------------------------------------ optimising

    def configure_optimizers(self) -> Any:
        settings = self.config.optimizer
        decayed = [p for p in self.network.parameters() if p.ndim > 1]
        free = [
            p for p in self.network.parameters() if p.ndim <= 1
        ]  # biases and norms: decay would only shift them
        groups = [
            {"params": decayed, "weight_decay": settings.weight_decay},
            {"params": free, "weight_decay": 0.0},
        ]
        optimizer = AdamW(groups, lr=settings.lr, fused=self.device.type == "cuda")
        total = int(self.trainer.estimated_stepping_batches)
        per_epoch = total / max(1, self.trainer.max_epochs or 1)
        scheduler = warmup_cosine(optimizer, settings, total, per_epoch)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    # ------------------------------------------------------------------------------------------ what is kept

    def card(
        self, metrics: dict[str, Any] | None = None, training: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The model file's description of this network as it is now."""
        return make_card(
            signal=self.data.train_split.signal,
            labels=self.data.labels,
            network=self.config.network,
            mel_shape=self.data.mel_shape,
            unit=self.config.data.unit,
            blend=self.blend,
            rule=self.rule,
            training={"settings": asdict(self.config), "epoch": self.current_epoch, **(training or {})},
            metrics=metrics,
        )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint[CARD_KEY] = json.dumps(self.card())


def selection_rank(f1: float, loss: float) -> float:
    """F1 with ties broken by the loss, which counts for less than 0.001 of it: the higher, the better the check.

    On few validation recordings F1 is 1 after an epoch or two, long before the network has learnt; the first of equals would
    be kept and training would stop there.
    """
    return f1 + 1e-3 / (1.0 + loss)


def decision_arguments(config: TrainConfig) -> dict[str, Any]:
    """The configured decision as keyword arguments of `rule_for_scores`."""
    decision = config.decision
    budget = {"max_fpr": decision.max_fpr, "min_tpr": decision.min_tpr, "fixed": decision.threshold}.get(
        decision.policy
    )
    return {
        "pooling": decision.pooling,
        "vote_fraction": decision.vote_fraction,
        "policy": decision.policy,
        "budget": budget,
        "cost_miss": decision.cost_miss,
        "cost_false_dig": decision.cost_false_dig,
        "calibration": decision.calibration,
    }


def warmup_cosine(
    optimizer: torch.optim.Optimizer, settings: OptimizerConfig, total: int, per_epoch: float
) -> LRScheduler:
    """Linear from the first step on, then a cosine to `min_lr` at the last of `total` optimiser steps.

    A warm-up that would fill the run is cut to its first half.
    """
    warmup = min(round(settings.warmup_epochs * per_epoch), total // 2)
    cosine = CosineAnnealingLR(optimizer, max(1, total - warmup), settings.min_lr)
    if warmup == 0:
        return cosine
    linear = LinearLR(optimizer, start_factor=1 / (warmup + 1), end_factor=1.0, total_iters=warmup)
    return SequentialLR(optimizer, [linear, cosine], milestones=[warmup])
