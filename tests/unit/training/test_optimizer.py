"""The schedule against PyTorch's own schedulers, accumulation against the large batch."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lightning.pytorch.plugins import MixedPrecision
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

from leakdet.config import OptimizerConfig, TrainConfig
from leakdet.core.errors import SettingsError
from leakdet.training.checkpoints import read_checkpoint
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import make_module
from leakdet.training.optimizer import make_optimizer, rate_share, samples_in_step, warmup_cosine

Configured = Callable[..., TrainConfig]
Fitted = Callable[..., pl.Trainer]
Opened = Callable[[TrainConfig], LeakDataModule]


def rates(
    scheduler_of: Callable[[SGD], torch.optim.lr_scheduler.LRScheduler], steps: int
) -> list[float]:
    optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=1e-2)
    scheduler = scheduler_of(optimizer)
    found = []
    for _ in range(steps + 1):
        found.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        scheduler.step()
    return found


@settings(max_examples=25)
@given(st.integers(2, 60), st.integers(1, 29))
def test_the_curve_is_that_of_linear_then_cosine(total: int, warmup: int) -> None:
    warmup = min(warmup, total // 2)

    def reference(optimizer: SGD) -> SequentialLR:
        linear = LinearLR(optimizer, 1 / (warmup + 1), 1.0, warmup)
        cosine = CosineAnnealingLR(optimizer, total - warmup, 1e-6)
        return SequentialLR(optimizer, [linear, cosine], [warmup])

    configured = OptimizerConfig(lr=1e-2, warmup_epochs=float(warmup), min_lr=1e-6)
    ours = rates(lambda optimizer: warmup_cosine(optimizer, configured, total, 1.0), total)
    np.testing.assert_allclose(ours, rates(reference, total), rtol=1e-6)
    assert math.isclose(ours[-1], 1e-6, rel_tol=1e-9)


def test_the_rate_stays_at_its_floor_beyond_the_end() -> None:
    assert rate_share(150, 10, 100, 0.001) == pytest.approx(0.001)
    assert (
        rate_share(0, 3, 100, 0.0) == 0.25
    )  # the first step is taken at a part of the rate, not at all of it


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_run_ends_at_the_end_of_its_schedule(
    fitted: Fitted, tmp_path: Path, accumulate: int
) -> None:
    fitted(
        tmp_path,
        f"trainer.accumulate_grad_batches={accumulate}",
        "trainer.max_epochs=2",
        "optimizer.warmup_epochs=1",
    )
    last = read_checkpoint(tmp_path / "checkpoints" / "last.ckpt")
    assert last["lr_schedulers"][0]["last_epoch"] == last["global_step"]
    assert last["lr_schedulers"][0]["_last_lr"] == [pytest.approx(1e-6)] * 2


@pytest.mark.parametrize(("name", "moved"), [("adamw", 0.5), ("adam", 0.0)])
def test_only_adamw_takes_the_decay_off_the_weights(name: str, moved: float) -> None:
    """Adam, whose decay is part of the gradient, scales it away: its first step is the rate."""
    network = nn.Linear(1, 1, bias=False)
    nn.init.constant_(network.weight, 2.0)
    optimizer = make_optimizer(network, OptimizerConfig(name=name, lr=0.5, weight_decay=0.5))
    network.weight.grad = torch.ones_like(network.weight)
    optimizer.step()
    assert network.weight.item() == pytest.approx(2.0 - 0.5 - moved)


def test_biases_are_not_decayed() -> None:
    network = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    decayed, free = make_optimizer(network, OptimizerConfig(weight_decay=0.5)).param_groups
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.5, 0.0)
    assert [p.ndim for p in decayed["params"]] == [2]
    assert len(free["params"]) == 3


# the scaler skips a step whose gradients overflow
@pytest.mark.filterwarnings("ignore:Detected call of")
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_a_fused_optimiser_is_clipped_at_every_precision(
    precision: Literal["32-true", "bf16-mixed", "16-mixed"],
    configured: Configured,
    opened: Opened,
    tmp_path: Path,
) -> None:
    """On an accelerator that would be the first run of trainer=gpu; the plugin is the same on a
    processor.
    """
    config = configured()
    data = opened(config)
    module = make_module(data)
    plugins = [] if precision == "32-true" else [MixedPrecision(precision, "cpu")]
    trainer = pl.Trainer(
        default_root_dir=tmp_path, accelerator="cpu", plugins=plugins,
        gradient_clip_val=1.0, max_steps=2, limit_val_batches=0, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False,
    )  # fmt: skip
    trainer.fit(module, datamodule=data)
    assert trainer.global_step == 2
    assert trainer.optimizers[0].defaults["fused"]


@pytest.mark.parametrize(
    ("overrides", "warmup"),
    [
        (("trainer.max_epochs=10",), 12),
        (("trainer.max_epochs=200", "+trainer.max_steps=50"), 12),
        (("trainer.max_epochs=10", "trainer.accumulate_grad_batches=2"), 6),
    ],
)
def test_warm_up_takes_its_epochs_however_the_run_ends(
    overrides: tuple[str, ...],
    warmup: int,
    configured: Configured,
    opened: Opened,
    tmp_path: Path,
) -> None:
    """The smoke run has 6 batches an epoch."""
    config = configured("optimizer.warmup_epochs=2", *overrides)
    data = opened(config)
    module = make_module(data)
    rates = []
    watch = pl.Callback()
    watch.on_train_batch_start = lambda trainer, *_: rates.append(
        trainer.optimizers[0].param_groups[0]["lr"]
    )  # type: ignore[method-assign]
    settings = config.trainer | {
        "max_epochs": config.trainer["max_epochs"],
        "limit_val_batches": 0,
        "logger": False,
    }
    trainer = pl.Trainer(
        default_root_dir=tmp_path, callbacks=[watch], enable_checkpointing=False, use_distributed_sampler=False,
        **(settings | {"enable_progress_bar": False, "max_epochs": 5 if "max_steps" not in settings else 200}),
    )  # fmt: skip
    trainer.fit(module, datamodule=data)
    steps = rates[:: trainer.accumulate_grad_batches]
    assert steps.index(max(steps)) == warmup


def test_a_run_without_end_has_no_schedule(fitted: Fitted, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"trainer\.max_epochs=-1"):
        fitted(tmp_path, "trainer.max_epochs=-1")


def test_samples_of_a_step_with_a_short_last_one() -> None:
    sizes = np.array([5, 5, 4, 5, 4])
    assert [samples_in_step(sizes, index, 2, 5) for index in range(5)] == [10, 10, 9, 9, 4]
    assert samples_in_step(sizes, 2, 2, batches=3) == 4  # trainer.limit_train_batches=3


NO_CHANCE = (
    "augment.eq_db=0",
    "network.dropout=0",
    "trainer.max_epochs=2",
    "optimizer.warmup_epochs=0",
)


def test_accumulated_small_batches_equal_the_large_batch(fitted: Fitted, tmp_path: Path) -> None:
    """Batches of unequal size and a last step of fewer batches included: 3 pieces make 2 steps of 2
    and 1.
    """
    samples = 90
    fitted(tmp_path / "large", *NO_CHANCE, f"data.batch_size={samples}")
    fitted(
        tmp_path / "small", *NO_CHANCE, "data.batch_size=13", "trainer.accumulate_grad_batches=7"
    )
    large, small = (
        read_checkpoint(tmp_path / name / "checkpoints" / "last.ckpt")
        for name in ("large", "small")
    )
    assert large["global_step"] == small["global_step"] == 2
    for name, weight in large["state_dict"].items():
        torch.testing.assert_close(small["state_dict"][name], weight, rtol=0, atol=5e-6)
