"""Steps on a copy of a network, as a training takes them."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from leakdet.config import TrainConfig
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import make_module
from leakdet.training.trial_step import TrialStep

Configured = Callable[..., TrainConfig]
Opened = Callable[[TrainConfig], LeakDataModule]


def test_steps_lower_the_loss_in_the_precision_of_the_training_and_leave_the_module(
    configured: Configured, opened: Opened
) -> None:
    entered: list[int] = []

    def precision() -> AbstractContextManager[Any]:
        entered.append(1)
        return nullcontext()

    config = configured("network=linear", "augment.eq_db=0")
    data = opened(config)
    module = make_module(config, data)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    trial = TrialStep(module, torch.device("cpu"), precision)
    batch = trial.on_device(data.train_samples.batch(0, 64))
    losses = [float(trial.train(batch, 0.01)) for _ in range(5)]
    trial.validate(batch)
    assert losses[-1] < losses[0]
    assert len(entered) == 6
    assert trial.network.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
