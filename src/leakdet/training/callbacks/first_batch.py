"""Is the input scaled so that learning can begin? The loss of the very first batch against chance."""

from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback

from leakdet.detection.losses import chance_loss, loss_parts
from leakdet.loading.samples import Batch
from leakdet.training import log_names
from leakdet.training.callbacks.findings import Findings
from leakdet.training.callbacks.log_numbers import log_numbers
from leakdet.training.diagnostics import first_batch
from leakdet.training.module import LeakModule


class FirstBatch(Callback):
    """One forward pass before the first step of a fresh network; the only one that a run pays for this."""

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
        config, leak_index = pl_module.config.loss, pl_module.data.labels.leak_index
        output = pl_module.network.eval()(batch.mel.float())
        pl_module.network.train()
        weight = torch.ones_like(batch.weight)
        parts = loss_parts(output, batch.class_id, weight, config, pl_module.weights, leak_index)
        chance = chance_loss(batch.class_id, pl_module.weights, config)
        lowest, highest = map(float, output.class_logits.aminmax())
        numbers = {
            log_names.FIRST_CLASS_LOSS: float(parts.class_loss),
            log_names.FIRST_LEAK_LOSS: float(parts.leak_loss),
            log_names.FIRST_CHANCE_LOSS: chance,
            log_names.FIRST_LEAK_SHARE: float((batch.class_id == leak_index).float().mean()),
            **dict(zip(log_names.FIRST_LOGITS, (lowest, highest), strict=True)),
        }
        log_numbers(trainer, numbers)
        largest = max(abs(lowest), abs(highest))
        self.findings.say(
            trainer, first_batch(numbers[log_names.FIRST_CLASS_LOSS], chance, largest)
        )
