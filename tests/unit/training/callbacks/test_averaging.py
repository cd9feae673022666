"""What a validation check scores is what its checkpoint holds, averaged or not."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from leakdet.config import TrainConfig
from leakdet.training import log_names
from leakdet.training.checkpoints import read_checkpoint
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import fit, make_module

Configured = Callable[..., TrainConfig]
RECIPES = {
    "ema": ("averaging.name=ema", "averaging.ema_decay=0.9"),
    "swa": ("averaging.name=swa", "averaging.swa_start=0.5"),
}


class EpochEnds(pl.Callback):
    """The weights in training and those of last.ckpt at the end of every epoch but the last."""

    def __init__(self, last: Path) -> None:
        self.last = last
        self.trained: list[dict[str, torch.Tensor]] = []
        self.kept: list[dict[str, torch.Tensor]] = []

    def on_train_batch_end(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", *_: Any
    ) -> None:
        if trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            self.trained.append(
                {name: p.detach().clone() for name, p in pl_module.named_parameters()}
            )

    def on_train_epoch_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if trainer.current_epoch:
            self.kept.append(read_checkpoint(self.last)["state_dict"])


@pytest.fixture(params=RECIPES)
def averaged(
    request: pytest.FixtureRequest, configured: Configured, demo_store: Path, tmp_path: Path
) -> tuple[TrainConfig, LeakDataModule, EpochEnds]:
    """Settings, data and weights of a run of four epochs in `tmp_path`."""
    config = configured("trainer.max_epochs=4", "loss_patience=0", *RECIPES[request.param])
    seen = EpochEnds(tmp_path / "checkpoints" / "last.ckpt")
    data = LeakDataModule(config, demo_store)
    fit(data, tmp_path, [seen])
    seen.kept.append(read_checkpoint(seen.last)["state_dict"])
    return config, data, seen


def test_a_checkpoint_scores_what_was_logged_at_its_check(
    averaged: tuple[TrainConfig, LeakDataModule, EpochEnds], tmp_path: Path
) -> None:
    _, data, _ = averaged
    with (tmp_path / log_names.HISTORY).open(encoding="utf-8") as file:
        logged = {int(float(row["step"])): row for row in csv.DictReader(file)}
    for name in (log_names.BEST_F1, log_names.BEST_LOSS, log_names.LAST):
        checkpoint = read_checkpoint(tmp_path / "checkpoints" / f"{name}.ckpt")
        module = make_module(data)
        module.load_state_dict(checkpoint["state_dict"])
        quiet = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
        scorer = pl.Trainer(accelerator="cpu", devices=1, use_distributed_sampler=False, **quiet)  # type: ignore[arg-type]
        (found,) = scorer.validate(module, datamodule=data, verbose=False)
        row = logged[checkpoint["global_step"]]
        for value in (log_names.VAL_F1, log_names.VAL_LOSS):
            assert found[value] == pytest.approx(float(row[value]), rel=1e-5), (name, value)


@pytest.mark.parametrize("averaged", ["swa"], indirect=True)
def test_swa_keeps_the_trained_weights_until_it_begins_and_then_the_mean_of_the_epoch_ends(
    averaged: tuple[TrainConfig, LeakDataModule, EpochEnds],
) -> None:
    _, _, seen = averaged
    for name in seen.trained[0]:
        trained = [weights[name] for weights in seen.trained]
        kept = [weights[name] for weights in seen.kept]
        assert all(torch.equal(kept[epoch], trained[epoch]) for epoch in (0, 1, 2)), name
        mean = (trained[2].double() + trained[3].double()) / 2
        torch.testing.assert_close(kept[3].double(), mean, rtol=1e-5, atol=1e-6)


class Weights(pl.Callback):
    """The weights in training after every step, and which of them end an epoch."""

    def __init__(self) -> None:
        self.of_steps: list[dict[str, torch.Tensor]] = []
        self.epoch_ends: list[int] = []

    def on_train_batch_end(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", *_: Any
    ) -> None:
        self.of_steps.append({name: p.detach().clone() for name, p in pl_module.named_parameters()})
        if trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            self.epoch_ends.append(len(self.of_steps) - 1)


@pytest.mark.parametrize("name", ["ema", "swa"])
def test_averaged_weights_are_what_is_kept(
    name: str, configured: Configured, demo_store: Path, tmp_path: Path
) -> None:
    """Against the mean of the weights of each step or epoch, taken apart."""
    how = {"ema": "averaging.ema_decay=0.9", "swa": "averaging.swa_start=0.0"}[name]
    config, seen = configured("trainer.max_epochs=3", f"averaging.name={name}", how), Weights()
    fit(LeakDataModule(config, demo_store), tmp_path, [seen])
    kept = read_checkpoint(tmp_path / "checkpoints" / "last.ckpt")["state_dict"]
    for parameter in seen.of_steps[0]:
        steps = [weights[parameter].double() for weights in seen.of_steps]
        if name == "ema":
            expected = steps[0]
            for step in steps[1:]:
                expected = 0.9 * expected + 0.1 * step
        else:
            expected = torch.stack([steps[at] for at in seen.epoch_ends]).mean(0)
        torch.testing.assert_close(kept[parameter].double(), expected, rtol=1e-5, atol=1e-6)
        assert not torch.equal(kept[parameter], seen.of_steps[-1][parameter]) or "bias" in parameter
