"""Logs gradient norms, and warns where they are not finite, explode or vanish."""

from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from jaxtyping import Float
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from leakdet.training import log_names
from leakdet.training.callbacks.findings import Finding, Findings, log_numbers
from leakdet.training.module import LeakModule

EXPLODING, VANISHING = 1e4, 1e-8  # mean norms


class GradientMonitor(Callback):
    """Measures the norm of every step, and once an epoch that of every parameter.

    Norms stay on the device until the epoch's end, so that no step waits for them.
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.parameters: dict[str, Tensor] = {}
        self.norms: list[Tensor] = []
        self.of_layers: dict[str, Tensor] = {}

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self.parameters = dict(pl_module.named_parameters())
        self.norms = [norm.to(pl_module.device) for norm in self.norms]  # of a resumed epoch

    def on_train_epoch_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self.norms, self.of_layers = [], {}

    def on_before_optimizer_step(
        self,
        trainer: "pl.Trainer",
        pl_module: "pl.LightningModule",
        optimizer: torch.optim.Optimizer,
    ) -> None:
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

    def on_train_epoch_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if not self.norms:
            return
        self._judge(trainer)
        norms = {f"{log_names.GRADIENT_LAYER}{name}": n for name, n in self.of_layers.items()}
        log_numbers(trainer, {name: float(norm) for name, norm in norms.items()})
        self.norms = []

    def on_exception(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", exception: BaseException
    ) -> None:
        """Name the cause where a run ends because its loss is NaN."""
        if self.norms and isinstance(exception, Exception):
            self._judge(trainer)

    def _judge(self, trainer: "pl.Trainer") -> None:
        norms = torch.stack(self.norms).cpu().double().numpy()
        half = trainer.precision == "16-mixed"
        self.findings.warn(trainer, bad_gradients(norms, trainer.gradient_clip_val, half))

    def state_dict(self) -> dict[str, Any]:
        return {"norms": torch.stack(self.norms).tolist() if self.norms else []}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.norms = list(torch.tensor(state_dict["norms"]))


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
