"""A training step on a copy of a network, for what is looked for before a run."""

import copy
import math
from contextlib import nullcontext

import torch

from leakdet.acoustics.augment import augmented
from leakdet.config import TrainerFlags
from leakdet.loading.samples import Batch
from leakdet.training.compilation import Precision
from leakdet.training.module import LeakModule
from leakdet.training.optimizer import make_optimizer


class TrialStep:
    """Trains a copy of the module's network on `device`, with its loss, optimiser and clipping."""

    def __init__(
        self, module: LeakModule, device: torch.device, precision: Precision = nullcontext
    ) -> None:
        self.config, self.device, self.precision = module.config, device, precision
        self.network = copy.deepcopy(module.network).to(device).train()
        self.loss, self.weights = module.loss, module.weights.to(device)
        self.optimizer = make_optimizer(self.network, self.config.optimizer)
        self.clip = TrainerFlags.of(self.config.trainer).gradient_clip_val or math.inf

    def on_device(self, batch: Batch) -> Batch:
        return Batch(*(part.to(self.device) for part in batch))

    def train(self, batch: Batch, rate: float) -> torch.Tensor:
        """Take one step at a learning rate; the loss before it. `batch` is on the device."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with self.precision():
            output = self.network(augmented(batch.mel.float(), self.config.augment))
            loss = self.loss(output, batch, self.weights).total
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
        self.optimizer.step()
        return loss.detach()

    def validate(self, batch: Batch) -> None:
        """Run the network as a validation check does."""
        self.network.eval()
        with torch.no_grad(), self.precision():
            self.network.infer(batch.mel)
        self.network.train()
