"""Gradient norms: of every step on the curve, of every parameter once an epoch; non-finite, exploding and vanishing ones."""

from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from leakdet.training import log_names
from leakdet.training.callbacks.findings import Findings
from leakdet.training.callbacks.log_numbers import log_numbers
from leakdet.training.diagnostics import gradients
from leakdet.training.module import LeakModule


class GradientMonitor(Callback):
    """Norms stay on the device until the epoch's end: no step waits for them."""

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
        of_parameters = {n: p.grad for n, p in self.parameters.items() if p.grad is not None}
        norms = torch._foreach_norm(list(of_parameters.values()))
        self.norms.append(torch.stack(norms).norm())
        if not self.of_layers:
            self.of_layers = dict(zip(of_parameters, norms, strict=True))
        every = trainer.log_every_n_steps  # type: ignore[attr-defined]
        if trainer.loggers and every and (trainer.global_step + 1) % every == 0:
            log_numbers(trainer, {log_names.GRADIENT_NORM: float(self.norms[-1])})

    def on_validation_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        """The check's row in the history tells the norms too."""
        if self.norms and isinstance(pl_module, LeakModule):
            norms = torch.stack(self.norms)
            mean, largest = torch.stack([norms.mean(), norms.max()]).tolist()
            pl_module.note({log_names.GRADIENT_MEAN: mean, log_names.GRADIENT_MAX: largest})

    def on_train_epoch_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if not self.norms:
            return
        norms = torch.stack(self.norms).cpu().double().numpy()
        self.findings.say(trainer, gradients(norms, trainer.gradient_clip_val))
        layers = {
            f"{log_names.GRADIENT_LAYER}{name}": float(norm)
            for name, norm in self.of_layers.items()
        }
        log_numbers(trainer, layers)
        self.norms = []

    def on_exception(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", exception: BaseException
    ) -> None:
        """A run that ends because its loss is NaN has its cause here."""
        if self.norms and isinstance(exception, Exception):
            norms = torch.stack(self.norms).cpu().double().numpy()
            self.findings.say(trainer, gradients(norms, trainer.gradient_clip_val))

    def state_dict(self) -> dict[str, Any]:
        return {"norms": torch.stack(self.norms).tolist() if self.norms else []}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.norms = list(torch.tensor(state_dict["norms"]))
