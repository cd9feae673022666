"""Every diagnosis on a run that was broken for it, and a healthy run that warns of nothing."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.loggers import Logger

from leakdet.config import TrainerFlags
from leakdet.errors import LeakdetError
from leakdet.loading.train_loader import TrainLoader
from leakdet.training import log_names
from leakdet.training import trainer as trainer_module
from leakdet.training.callbacks.early_stopping import LossStop
from leakdet.training.callbacks.findings import Findings
from leakdet.training.callbacks.loader_wait import LoaderWait, wait_numbers, waits
from leakdet.training.callbacks.rate_watch import low_rate
from leakdet.training.callbacks.system_use import SystemUse, idle_gpu, measured
from leakdet.training.checkpoint_io import read_checkpoint

Fitted = Callable[..., pl.Trainer]
FOUR = ("trainer.max_epochs=4", "loss_patience=0")


def said(folder: Path) -> list[str]:
    """Kinds of the warnings of a run."""
    path = folder / log_names.WARNINGS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line.split(":")[0].split(", ")[1] for line in lines]


def test_a_healthy_run_warns_of_nothing(fitted: Fitted, tmp_path: Path) -> None:
    fitted(tmp_path, *FOUR)
    assert said(tmp_path) == []


BROKEN = {
    "learning_rate": ("optimizer.lr=0",),
    "auxiliary": ("loss.aux_weight=50",),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_run_gives_its_own_warning(kind: str, fitted: Fitted, tmp_path: Path) -> None:
    fitted(tmp_path, *FOUR, *BROKEN[kind])
    assert said(tmp_path) == [kind]


def test_a_badly_scaled_input(
    fitted: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leakdet.detection.networks import InputLayer

    plain = InputLayer.forward
    monkeypatch.setattr(InputLayer, "forward", lambda self, mel: 300 * plain(self, mel))
    fitted(tmp_path, *FOUR, "trainer.max_epochs=1")
    assert said(tmp_path) == ["first_batch"]


def test_a_constant_network(
    fitted: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leakdet.detection.networks import Paper

    plain = Paper.features
    monkeypatch.setattr(Paper, "features", lambda self, x: plain(self, x) * 0)
    fitted(tmp_path, *FOUR)
    assert said(tmp_path) == ["constant"]


def test_inverted_labels(fitted: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = TrainLoader.__iter__

    def inverted(self: TrainLoader) -> Any:
        return (batch._replace(class_id=1 - batch.class_id) for batch in plain(self))

    monkeypatch.setattr(TrainLoader, "__iter__", inverted)
    fitted(tmp_path, "trainer.max_epochs=5", "loss_patience=0")
    assert said(tmp_path) == ["inverted"]


def test_an_exploding_gradient_ends_with_its_cause(fitted: Fitted, tmp_path: Path) -> None:
    with pytest.raises(LeakdetError, match=r"validation loss is (nan|inf).*Lower optimizer\.lr"):
        fitted(tmp_path, *FOUR, "optimizer.lr=1e30", "optimizer.warmup_epochs=0")
    assert said(tmp_path) == ["gradient"]


def test_a_slow_loader(fitted: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = TrainLoader.__iter__

    def slow(self: TrainLoader) -> Any:
        for batch in plain(self):
            time.sleep(0.08)
            yield batch

    monkeypatch.setattr(TrainLoader, "__iter__", slow)
    fitted(tmp_path, "trainer.max_epochs=1")
    assert said(tmp_path) == ["loader"]


def test_waits_are_counted_with_their_spacing() -> None:
    assert waits([0.001] * 100, 10.0) == []
    assert waits([0.001] * 96 + [0.06] * 4, 10.0) == []  # 4 % are spikes
    (found,) = waits([0.06 if index % 10 == 0 else 0.001 for index in range(100)], 10.0)
    assert (
        "10 of 100 batches over 50 ms, typically 10 batches apart; worst five 60, 60, 60, 60, 60 ms"
        in found[1]
    )
    assert waits([0.02] * 100, 10.0)[0][0] == "loader"  # a fifth of the epoch, without one spike


def test_the_numbers_of_the_waits_are_logged() -> None:
    waited = [0.001] * 100
    waited[10], waited[30], waited[60] = 0.1, 0.2, 0.3
    numbers = wait_numbers(waited, 2.0)
    assert (
        numbers[log_names.WAIT_COUNT],
        numbers[log_names.WAIT_SPIKES],
        numbers[log_names.WAIT_SPACING],
    ) == (
        100,
        3,
        25,
    )
    assert (numbers[log_names.WAIT_MEDIAN], numbers[log_names.WAIT_MAX]) == (0.001, 0.3)
    assert [numbers[name] for name in log_names.WAIT_WORST] == [0.2, 0.1, 0.001, 0.001]
    assert numbers[log_names.WAIT_SHARE] == pytest.approx((0.6 + 97 * 0.001) / 2.0)
    assert log_names.WAIT_SPACING not in wait_numbers([0.1, 0.001], 2.0)


def trainer_and_rows() -> tuple[pl.Trainer, list[dict[str, float]]]:
    """A trainer for a callback alone, and the rows that its logger is given."""
    logger = Mock(spec=Logger)
    trainer = Mock(spec=pl.Trainer, loggers=[logger], global_step=0, sanity_checking=False)
    rows: list[dict[str, float]] = []
    logger.log_metrics = lambda numbers, step: rows.append(numbers)
    return trainer, rows


def test_an_epochs_first_wait_counts_and_the_share_is_of_the_time_since_the_last_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An epoch of four batches of 1 s, each after 0.25 s of waiting; a check of 10 s after two of them."""
    now = [100.0]
    monkeypatch.setattr("leakdet.training.callbacks.loader_wait.time.monotonic", lambda: now[0])
    monkeypatch.setattr(Findings, "say", lambda *_: None)
    watch, (trainer, rows) = LoaderWait(Findings(tmp_path)), trainer_and_rows()
    both = (trainer, Mock(spec=pl.LightningModule))
    watch.on_train_start(*both)
    watch.on_train_epoch_start(*both)
    for batch in range(4):
        now[0] += 0.25
        watch.on_train_batch_start(*both, None, batch)
        now[0] += 1.0
        watch.on_train_batch_end(*both, None, None, batch)
        if batch % 2:
            watch.on_validation_start(*both)
            now[0] += 10.0
            watch.on_validation_end(*both)
    assert [row[log_names.WAIT_COUNT] for row in rows] == [
        2,
        1,
    ]  # the one after a check is the check's
    assert [row[log_names.WAIT_SHARE] for row in rows] == pytest.approx([0.5 / 2.5, 0.25 / 2.5])


class NVMLError(Exception):
    """As pynvml's: no RuntimeError."""


def test_a_gpu_that_does_not_tell_costs_its_number_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def utilization(device: torch.device) -> int:
        raise NVMLError("Not Supported")

    monkeypatch.setattr(torch.cuda, "utilization", utilization)
    assert set(measured(torch.device("cuda"))) == {log_names.CPU_USE, log_names.RAM_USE}
    use, (trainer, rows) = SystemUse(Findings(tmp_path)), trainer_and_rows()
    use._taken = [{log_names.CPU_USE: 0.5, log_names.GPU_USE: 0.8}, {log_names.CPU_USE: 0.7}]
    use.on_train_epoch_end(trainer, Mock(spec=pl.LightningModule))
    assert rows == [{log_names.CPU_USE: pytest.approx(0.6), log_names.GPU_USE: 0.8}]


def test_nothing_goes_on_sampling_after_an_exception(fitted: Fitted, tmp_path: Path) -> None:
    with pytest.raises(LeakdetError, match="validation loss"):
        fitted(tmp_path, "trainer.max_epochs=1", "optimizer.lr=1e30", "optimizer.warmup_epochs=0")
    assert "system use" not in [thread.name for thread in threading.enumerate()]


def test_a_low_rate_is_said_before_the_last_tenth_only() -> None:
    assert low_rate(9e-7, 0.5)[0][0] == "learning_rate"
    assert low_rate(9e-7, 0.95) == []
    assert low_rate(1e-6, 0.5) == []


def test_an_idle_gpu_is_said_below_30_percent() -> None:
    assert idle_gpu(0.29)[0][0] == "gpu"
    assert idle_gpu(0.3) == []


def test_the_loss_stop_waits_while_f1_rises_or_the_loss_stands() -> None:
    stop = LossStop(2, TrainerFlags())
    assert [stop.update(loss, 0.5) for loss in (1.0, 1.005, 1.2, 1.3)] == [
        False,
        False,
        False,
        True,
    ]
    stop = LossStop(2, TrainerFlags())
    assert [
        stop.update(*pair) for pair in ((1.0, 0.5), (1.2, 0.5), (1.3, 0.6), (1.4, 0.6), (0.9, 0.6))
    ] == [False] * 5
    resumed = LossStop(2, TrainerFlags())
    resumed.load_state_dict({"waited": 1, "lowest": 1.0, "best_f1": 0.5})
    assert resumed.update(1.5, 0.5)


def test_the_table_has_a_row_for_each_check_and_none_for_the_epochs_between(
    fitted: Fitted, tmp_path: Path, messages: pytest.LogCaptureFixture
) -> None:
    fitted(tmp_path, *FOUR, "trainer.check_val_every_n_epoch=2", "trainer.enable_progress_bar=true")
    rows = [line.split()[0] for line in messages.messages]
    assert rows == ["epoch", "2/4", "4/4"]


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
    name: str, fitted: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the mean of the weights of each step or epoch, taken apart."""
    seen, plain = Weights(), trainer_module.make_callbacks
    monkeypatch.setattr(trainer_module, "make_callbacks", lambda *a: [seen, *plain(*a)])
    how = {"ema": "averaging.ema_decay=0.9", "swa": "averaging.swa_start=0.0"}[name]
    fitted(tmp_path, "trainer.max_epochs=3", f"averaging.name={name}", how)
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


def test_the_settings_that_would_validate_on_a_part_are_refused(
    fitted: Fitted, tmp_path: Path
) -> None:
    with pytest.raises(LeakdetError, match="limit_val_batches"):
        fitted(tmp_path, "trainer.limit_val_batches=2")
