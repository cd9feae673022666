"""Looks at the first batch: warns where untrained weights are far from chance, with the cause."""

from collections.abc import Sequence
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback

from leakdet.config import NetworkConfig
from leakdet.detection.leak_classes import any_of
from leakdet.detection.losses import chance_loss
from leakdet.detection.networks import Output
from leakdet.loading.samples import Batch
from leakdet.training import log_names
from leakdet.training.callbacks.findings import Finding, Findings, log_numbers
from leakdet.training.module import LeakModule

OFF_CHANCE = 2.0  # times the chance loss, or a part of it
WELL_SCALED = (1 / 3, 3.0)  # standard deviation of a standardised batch


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
        network = pl_module.network.eval()
        output, input_std = (
            network(batch.mel.float()),
            float(network.input(batch.mel.float()).std()),
        )
        network.train()
        unweighted = batch._replace(weight=torch.ones_like(batch.weight))
        parts = pl_module.loss(output, unweighted, pl_module.weights)
        class_loss = float(parts.class_loss)
        chance = chance_loss(batch.class_id, pl_module.weights, pl_module.config.loss)
        is_leak = any_of(batch.class_id, pl_module.leaks)
        numbers = {
            log_names.FIRST_CLASS_LOSS: class_loss,
            log_names.FIRST_LEAK_LOSS: float(parts.leak_loss),
            log_names.FIRST_CHANCE_LOSS: chance,
            log_names.FIRST_LEAK_SHARE: float(is_leak.float().mean()),
            log_names.FIRST_INPUT_STD: input_std,
            **head_numbers(output, pl_module.leaks, both=pl_module.blend != 1.0),
        }
        log_numbers(trainer, numbers)
        largest = float(output.class_logits.abs().max())
        settings = pl_module.config.network
        finding = off_chance(class_loss, chance, largest, input_std, settings)
        self.findings.warn(trainer, finding)


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
