"""How fast a training is, and what slows it down besides its data."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import pytest
import torch

from leakdet._messages import LOG
from leakdet.config import TrainConfig
from leakdet.loading.samples import Batch
from leakdet.loading.train_loader import TrainLoader
from leakdet.loading.waiting import Wait
from leakdet.training import log_names
from leakdet.training.callbacks import step_times
from leakdet.training.callbacks.findings import Findings
from leakdet.training.callbacks.step_times import StepTimes, Stretch, slow_callbacks, slow_check
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import fit

Alone = tuple[pl.Trainer, list[dict[str, float]]]
Warned = Callable[[Path], list[str]]


def trained(
    watch: StepTimes,
    trainer: Any,
    clock: list[float],
    between_s: float = 0.0,
    check_s: float = 10.0,
) -> None:
    """Two epochs of two batches of 8: a wait of 0.25 s, a step of 1 or 3 s, callbacks; a check."""
    samples = torch.zeros(8, dtype=torch.int64)
    batch = Batch(torch.zeros(8, 1), samples, samples.float(), samples)
    both = (trainer, Mock(spec=pl.LightningModule, device=torch.device("cpu")))
    for _ in range(2):
        watch.on_train_epoch_start(*both)
        for number, step_s in enumerate((1.0, 3.0)):
            wait = Wait(number, number == 0, False, clock[0], 0.25, 0.0, 0, 0)
            trainer.train_dataloader = Mock(spec=TrainLoader, wait=wait)
            clock[0] += 0.25
            watch.on_train_batch_start(*both, batch, number)
            clock[0] += step_s
            watch.on_train_batch_end(*both, None, batch, number)
            clock[0] += between_s
        watch.on_validation_start(*both)
        clock[0] += check_s
        watch.on_validation_end(*both)
        clock[0] += 100.0  # checkpoints
    watch.on_train_end(*both)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(step_times.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def alone(trainer_and_rows: Alone) -> Alone:
    trainer, rows = trainer_and_rows
    trainer.world_size, trainer.val_check_interval, trainer.check_val_every_n_epoch = 2, 1.0, 1
    return trainer, rows


def test_rates_are_of_the_training_without_its_checks(
    alone: Alone, clock: list[float], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer, rows = alone
    with caplog.at_level(logging.INFO, LOG.name):
        trained(StepTimes(Findings(tmp_path)), trainer, clock, between_s=0.5)
    epoch_s = 2 * 0.25 + 1 + 3 + 2 * 0.5
    assert [row[log_names.SAMPLES_PER_S] for row in rows] == [pytest.approx(32 / epoch_s)] * 2
    for row in rows:
        assert row[log_names.BATCHES_PER_S] == pytest.approx(2 / epoch_s)
        assert row[log_names.CALLBACKS_SHARE] == pytest.approx(0.5 / epoch_s)
        assert row[log_names.CHECK_TIME] == pytest.approx(10)
        assert row[log_names.CHECK_SHARE] == pytest.approx(10 / (10 + epoch_s))
        # one of 1.25 s, and 3.75 s from its end to the second one's
        assert row[log_names.BATCH_MEAN] == pytest.approx(2.5)
        assert row[log_names.BATCH_STD] == pytest.approx(1.25)
        assert row[log_names.BATCH_MAX] == pytest.approx(3.75)
    (line,) = [message for message in caplog.messages if message.startswith("speed    ")]
    assert "6 samples/s, 0.364 batches/s (a batch 2,500.0 ± 1,250.0 ms)" in line
    assert "waiting for data 9%, callbacks and loggers 9%; besides, checks took 65%" in line


def test_the_start_of_reading_processes_is_left_out(
    alone: Alone, clock: list[float], tmp_path: Path
) -> None:
    trainer: Any = alone[0]
    watch, both = StepTimes(Findings(tmp_path)), (trainer, Mock(spec=pl.LightningModule))
    for number, (wait_s, starting) in enumerate([(9.0, True), (7.0, True), (0.5, False)]):
        wait = Wait(number, starting, starting, clock[0], wait_s, 0.0, 0, 0)
        trainer.train_dataloader = Mock(spec=TrainLoader, wait=wait)
        clock[0] += wait_s
        watch.on_train_batch_start(*both, None, number)
        clock[0] += 1.0
        watch.on_train_batch_end(*both, None, None, number)
    assert watch._since_check.waited_s == 0.5
    assert list(watch._since_check.latest_s) == [1.0, 1.5]


def test_the_variance_of_the_batches() -> None:
    stretch = Stretch()
    for seconds in (1.0, 3.0):
        stretch.add_batch(seconds, 8)
    numbers = stretch.numbers()
    assert (numbers[log_names.BATCH_MEAN], numbers[log_names.BATCH_STD]) == (2, 1)
    assert (numbers[log_names.BATCH_P95], numbers[log_names.BATCH_MAX]) == (3, 3)
    assert stretch.samples == 16


@pytest.mark.parametrize(
    ("between_s", "check_s", "kinds"),
    [(0.0, 1.0, []), (2.0, 1.0, ["callbacks"]), (0.0, 60.0, ["validation"])],
)
def test_each_fault_has_its_own_sentence_and_a_healthy_training_none(
    between_s: float,
    check_s: float,
    kinds: list[str],
    alone: Alone,
    clock: list[float],
    warned: Warned,
    tmp_path: Path,
) -> None:
    trained(StepTimes(Findings(tmp_path)), alone[0], clock, between_s, check_s)
    assert warned(tmp_path) == kinds


class Slow(pl.Callback):
    def on_train_batch_end(self, *_: Any) -> None:
        time.sleep(0.1)


def test_a_slow_callback_is_named_and_not_the_loader(
    configured: Callable[..., TrainConfig],
    demo_store: Path,
    warned: Warned,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step_times, "LEAST_CALLBACKS_S", 0.2)
    config = configured("trainer.max_epochs=1")
    fit(config, LeakDataModule(config, demo_store), tmp_path, [Slow()])
    assert warned(tmp_path) == ["callbacks"]


def test_callbacks_are_slow_above_a_fifth_of_the_training_and_5_ms_a_batch() -> None:
    assert slow_callbacks(Stretch(batches=100, training_s=10.0, callbacks_s=2.0)) is None
    assert slow_callbacks(Stretch(batches=1000, training_s=10.0, callbacks_s=4.0)) is None
    found = slow_callbacks(Stretch(batches=100, training_s=10.0, callbacks_s=4.0))
    assert found is not None
    assert "took 40% of the training, 40 ms after each batch" in found.text


def test_a_check_is_slow_above_half_of_the_time_and_5_s() -> None:
    assert slow_check(Stretch(training_s=10.0, check_s=10.0), 1) is None
    assert slow_check(Stretch(training_s=1.0, check_s=4.9), 1) is None
    found = slow_check(Stretch(training_s=10.0, check_s=15.0), 2)
    assert found is not None
    # 12 epochs of 5 s and a check of 15 s
    assert "took 15 s, 60%" in found.text
    assert "trainer.check_val_every_n_epoch=12 brings that to about 20%" in found.text
    within = slow_check(Stretch(training_s=10.0, check_s=15.0), 0)
    assert within is not None
    assert "A larger trainer.val_check_interval" in within.text


def test_stretches_add_up() -> None:
    total = Stretch()
    for seconds in (1.0, 2.0):
        part = Stretch(training_s=seconds, waited_s=0.5, check_s=1.0)
        part.add_batch(seconds, 8)
        total += part
    assert (total.samples, total.batches, total.training_s, total.waited_s) == (16, 2, 3, 1)
    assert total.batch_s == (1.5, 0.5)
    assert total.longest_s == 2


def test_a_training_without_progress_on_screen_says_nothing_of_its_speed(
    alone: Alone, clock: list[float], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer: Any = alone[0]
    trainer.progress_bar_callback = None
    with caplog.at_level(logging.INFO, LOG.name):
        trained(StepTimes(Findings(tmp_path)), trainer, clock)
    assert not [message for message in caplog.messages if message.startswith("speed")]


def test_a_gpu_is_waited_for_before_a_check_only(
    alone: Alone, clock: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    watch, trainer = StepTimes(Findings(tmp_path)), alone[0]
    trained(watch, trainer, clock)
    assert waited == []
    watch.on_validation_start(trainer, Mock(spec=pl.LightningModule, device=torch.device("cuda")))
    assert waited == [torch.device("cuda")]
