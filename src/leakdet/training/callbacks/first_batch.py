"""Warns where the input is so badly scaled that untrained weights are far from chance."""

from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback

from leakdet.detection.losses import chance_loss
from leakdet.loading.samples import Batch
from leakdet.training import log_names
from leakdet.training.callbacks.findings import Finding, Findings, log_numbers
from leakdet.training.module import LeakModule

OFF_CHANCE = 2.0  # times the chance loss, or a part of it


class FirstBatch(Callback):
    """Runs one forward pass before the first step of a fresh network."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    @torch.no_grad()
    def on_train_batch_start(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", batch: Any, batch_idx: int
    ) -> None:
        fresh = trainer.global_step == 0 and batch_idx == 0
        if not fresh or not isinstance(pl_module, LeakModule) or not isinstance(batch, Batch):
            return
        if pl_module.config.init_from is not None or len(batch.class_id) == 0:
            return
        output = pl_module.network.eval()(batch.mel.float())
        pl_module.network.train()
        unweighted = batch._replace(weight=torch.ones_like(batch.weight))
        parts = pl_module.loss(output, unweighted, pl_module.weights)
        class_loss = float(parts.class_loss)
        chance = chance_loss(batch.class_id, pl_module.weights, pl_module.config.loss)
        is_leak = batch.class_id == pl_module.leak_index
        lowest, highest = map(float, output.class_logits.aminmax())
        numbers = {
            log_names.FIRST_CLASS_LOSS: class_loss,
            log_names.FIRST_LEAK_LOSS: float(parts.leak_loss),
            log_names.FIRST_CHANCE_LOSS: chance,
            log_names.FIRST_LEAK_SHARE: float(is_leak.float().mean()),
            **dict(zip(log_names.FIRST_LOGITS, (lowest, highest), strict=True)),
        }
        log_numbers(trainer, numbers)
        largest = max(abs(lowest), abs(highest))
        self.findings.warn(trainer, badly_scaled(class_loss, chance, largest))


def badly_scaled(loss: float, chance: float, largest_logit: float) -> Finding | None:
    """Judge the class loss of untrained weights against `chance`, the loss of equal logits."""
    if chance / OFF_CHANCE <= loss <= chance * OFF_CHANCE:
        return None
    return Finding(
        "first_batch",
        f"before the first step the class loss is {loss:.3f}, chance is {chance:.3f} (largest "
        f"logit {largest_logit:.3g}): the input is badly scaled. Set network.standardise=true and "
        "network.input_norm=level_free.",
    )
