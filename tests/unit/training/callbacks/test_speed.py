import logging
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import pytest
import torch

from leakdet.config import CallbacksConfig, TrainConfig
from leakdet.core.messages import DETAIL, LOG
from leakdet.loading.loaders import InMemoryLoader, TrainLoader, Wait
from leakdet.loading.samples import Batch
from leakdet.training import log_names
from leakdet.training.callbacks import speed
from leakdet.training.callbacks.diagnostics import Findings
from leakdet.training.callbacks.machine import MachineState
from leakdet.training.callbacks.speed import (
    KEPT,
    SPIKE_S,
    Interval,
    Speed,
    Times,
    long_waits,
    quantile,
    slow_callbacks,
    slow_check,
)
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import fit
from leakdet.training.module import LeakModule

Fitted = Callable[..., pl.Trainer]
Warned = Callable[[Path], list[str]]
Alone = tuple[pl.Trainer, list[dict[str, float]]]
IDLE = MachineState(0.0, 0.3, 0.1, 0, 0, 0.0)
OF_WAITS = CallbacksConfig(step_times=False, system_use=False)
OF_STEPS = CallbacksConfig(loader_wait=False, system_use=False)


def waited(
    seconds: Iterable[float], training_s: float = 10.0, state: MachineState = IDLE
) -> Interval:
    """An interval of these waits, the long ones of which are spikes in this state."""
    interval = Interval(training_s=training_s)
    for wait in seconds:
        interval.waits.add(wait)
        if wait > SPIKE_S:
            interval.add_spike(state)
    return interval


def test_the_numbers_of_the_waits() -> None:
    long = {10: 0.1, 30: 0.2, 60: 0.3}
    numbers = waited((long.get(index, 0.001) for index in range(100)), 2.0).wait_numbers()
    assert (numbers[log_names.WAIT_COUNT], numbers[log_names.WAIT_SPIKES]) == (100, 3)
    assert numbers[log_names.WAIT_SPACING] == 25
    assert (numbers[log_names.WAIT_MEDIAN], numbers[log_names.WAIT_MAX]) == (0.001, 0.3)
    assert [numbers[name] for name in log_names.WAIT_WORST] == [0.2, 0.1, 0.001, 0.001]
    assert numbers[log_names.WAIT_SHARE] == pytest.approx((0.6 + 97 * 0.001) / 2.0)
    assert log_names.WAIT_SPACING not in waited([0.1]).wait_numbers()  # one spike has none


def test_memory_is_bounded_and_count_and_worst_are_of_all() -> None:
    times = Times()
    for index in range(KEPT + 100):
        times.add(1.0 if index == 0 else 0.001)
    assert len(times.latest_s) == KEPT
    assert times.count == KEPT + 100
    assert times.worst_s[0] == 1.0
    assert times.total_s == pytest.approx(1 + (KEPT + 99) * 0.001)


def test_the_state_is_the_mean_over_the_spikes() -> None:
    interval = Interval()
    for load in (1.0, 3.0):
        interval.waits.add(1.0)
        interval.add_spike(IDLE._replace(load=load))
    assert interval.state.load == 2.0


def test_a_quantile_is_one_of_the_values() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([1.0], 0.95) == 1.0


def test_a_slow_loader_is_named_live_and_at_the_check(
    fitted: Fitted,
    warned: Warned,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    plain = InMemoryLoader.batches

    def slow(self: InMemoryLoader, epoch: int, start: int = 0) -> Any:
        for batch in plain(self, epoch, start):
            time.sleep(0.08)
            yield batch

    monkeypatch.setattr(InMemoryLoader, "batches", slow)
    monkeypatch.setattr(speed, "PRINTED", 2)
    with caplog.at_level(logging.INFO, LOG.name):
        fitted(tmp_path, "trainer.max_epochs=1")
    assert warned(tmp_path) == ["loader"]
    live = [line for line in caplog.messages if "ms for data (load" in line]
    # the first batch begins the epoch, and one or two others may be chance
    assert live[0].startswith("epoch 1, batch 4: waited ")
    assert len(live) == speed.PRINTED
    assert "only logged" in live[-1]
    summary = (tmp_path / log_names.WARNINGS).read_text()
    assert "on average load" in summary


def test_waits_are_counted_with_their_spacing() -> None:
    assert long_waits(waited([0.001] * 100)) is None
    assert long_waits(waited([0.001] * 96 + [0.06] * 4)) is None  # 4 % are spikes
    spiky = long_waits(waited(0.06 if index % 10 == 0 else 0.001 for index in range(100)))
    assert spiky is not None
    assert "10 of 100 batches over 50 ms, typically 10 batches apart (in them" in spiky.text
    assert "worst five 60, 60, 60, 60, 60 ms" in spiky.text
    assert long_waits(waited([0.02] * 100)) is not None  # a fifth of it, without a spike


@pytest.mark.parametrize(
    ("place", "state", "says", "never"),
    [
        ("stream", IDLE, "local disk, raise data.workers", "no disk"),
        ("stream", IDLE._replace(read_mb=9), "local disk", "data.workers"),
        ("stream", IDLE._replace(disk_stall=0.5), "The disk was read", "data.workers"),
        ("ram", IDLE._replace(disk_stall=0.5), "so no disk", "The disk was read"),
        ("stream", IDLE._replace(cpu=1), "raise data.workers", "local disk"),
        ("stream", IDLE._replace(load=1e3), "lower threads and data.workers", "local disk"),
        ("ram", IDLE, "in memory, so no disk", "local disk"),
        ("ram", IDLE._replace(page_faults=99), "leave too little memory", "local disk"),
        ("ram", IDLE._replace(cpu=1), "Putting a batch together", "local disk"),
        ("ram", IDLE._replace(load=1e3), "More wants to run", "local disk"),
        ("device", IDLE, "on the accelerator, so no disk", "local disk"),
        ("device", IDLE._replace(load=1e3), "More wants to run", "local disk"),
        ("device", IDLE._replace(cpu=1), "on the accelerator, so no disk", "local disk"),
        ("", IDLE, "see system/cpu_share.", "the disk was read"),
    ],
)
def test_the_advice_goes_by_where_the_windows_are_and_by_the_cause(
    place: str, state: MachineState, says: str, never: str
) -> None:
    found = long_waits(waited([0.1] * 100, 20.0, state), place)
    assert found is not None
    assert says in found.text
    assert never not in found.text


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(speed.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def alone(trainer_and_rows: Alone) -> Alone:
    trainer, rows = trainer_and_rows
    trainer.world_size, trainer.val_check_interval, trainer.check_val_every_n_epoch = 2, 1.0, 1
    return trainer, rows


def module_on(device: str = "cpu") -> pl.LightningModule:
    module: pl.LightningModule = Mock(spec=pl.LightningModule, device=torch.device(device))
    return module


def begin_batch(
    watch: Speed,
    trainer: Any,
    clock: list[float],
    seconds: float,
    number: int,
    readers: int = 1,
    starting: bool = False,
) -> None:
    """Wait for batch `number` of an epoch that so many readers make in turn."""
    opening = number < readers
    wait = Wait(number, opening, opening and starting, clock[0], seconds, 0.0, 0, 0)
    trainer.train_dataloader = Mock(spec=TrainLoader, wait=wait)
    clock[0] += seconds
    watch.on_train_batch_start(trainer, module_on(), None, number)


def test_the_start_of_reading_processes_is_told_apart(
    tmp_path: Path, clock: list[float], alone: Alone
) -> None:
    """Two processes take 5 s and 4 s to start; later batches wait 0.25 s."""
    watch, (trainer, rows) = Speed(Findings(tmp_path), OF_WAITS), alone
    watch.on_train_start(trainer, module_on())
    watch.on_train_epoch_start(trainer, module_on())
    for number, wait_s in enumerate((5.0, 4.0, 0.25, 0.25)):
        begin_batch(watch, trainer, clock, wait_s, number, readers=2, starting=True)
        clock[0] += 1.0
        watch.on_train_batch_end(trainer, module_on(), None, None, number)
    watch.on_validation_start(trainer, module_on())
    assert rows[0] == {log_names.WORKER_START: 5.0}
    assert [row[log_names.SPIKE] for row in rows[1:3]] == [0.25, 0.25]
    assert [row[log_names.SPIKE_BATCH] for row in rows[1:3]] == [3, 4]
    assert (rows[3][log_names.WAIT_COUNT], rows[3][log_names.WAIT_MAX]) == (2, 0.25)
    assert rows[3][log_names.WAIT_SHARE] == pytest.approx(0.5 / 3.5)
    assert list(watch.interval.batches.latest_s) == [1.0, 1.25, 1.25]


def test_the_first_batches_of_an_epoch_are_waits_but_no_spikes(
    tmp_path: Path, clock: list[float], alone: Alone
) -> None:
    """The second epoch of two reading processes, which begin to read anew."""
    watch, (trainer, rows) = Speed(Findings(tmp_path), OF_WAITS), alone
    for number, wait_s in enumerate((3.0, 2.0, 0.01, 0.3)):
        begin_batch(watch, trainer, clock, wait_s, number, readers=2)
    clock[0] += 10.0 - 5.31
    watch.on_validation_start(trainer, module_on())
    assert rows[-1][log_names.WAIT_SPIKES] == 1
    assert rows[-1][log_names.WAIT_SHARE] == pytest.approx(5.31 / 10)


def test_spikes_are_logged_up_to_a_number(tmp_path: Path, clock: list[float], alone: Alone) -> None:
    watch, (trainer, rows) = Speed(Findings(tmp_path), OF_WAITS), alone
    for number in range(1, speed.LOGGED + 11):
        begin_batch(watch, trainer, clock, 0.2, number)
    assert len(rows) == speed.LOGGED
    assert watch.interval.spikes == speed.LOGGED + 10


def test_a_wait_that_is_rare_is_logged_and_not_said(
    tmp_path: Path, clock: list[float], alone: Alone, caplog: pytest.LogCaptureFixture
) -> None:
    watch, (trainer, rows) = Speed(Findings(tmp_path), OF_WAITS), alone
    with caplog.at_level(logging.INFO, LOG.name):
        for number in range(100):
            begin_batch(watch, trainer, clock, 0.2 if number in (30, 60) else 0.001, number)
    assert len(rows) == 2
    assert caplog.messages == []


def test_a_check_in_between_is_no_wait_and_the_share_is_of_the_time_since_the_last_check(
    tmp_path: Path, clock: list[float], alone: Alone
) -> None:
    """An epoch of four batches of 1 s, each after a wait of 0.25 s; a check of 10 s after two."""
    watch, (trainer, rows) = Speed(Findings(tmp_path), OF_WAITS), alone
    watch.on_train_epoch_start(trainer, module_on())
    for number in range(4):
        begin_batch(watch, trainer, clock, 0.25, number)
        clock[0] += 1.0
        watch.on_train_batch_end(trainer, module_on(), None, None, number)
        if number % 2:
            watch.on_validation_start(trainer, module_on())
            clock[0] += 10.0
            watch.on_validation_end(trainer, module_on())
    checks = [row for row in rows if log_names.WAIT_COUNT in row]
    assert [row[log_names.WAIT_COUNT] for row in checks] == [2, 2]
    assert [row[log_names.WAIT_SPIKES] for row in checks] == [1, 2]
    assert [row[log_names.WAIT_SHARE] for row in checks] == pytest.approx([0.2, 0.2])


def trained(
    watch: Speed,
    trainer: Any,
    clock: list[float],
    between_s: float = 0.0,
    check_s: float = 10.0,
) -> None:
    """Two epochs of two batches of 8: a wait of 0.25 s, a step of 1 or 3 s, callbacks; a check."""
    samples = torch.zeros(8, dtype=torch.int64)
    batch = Batch(torch.zeros(8, 1), samples, samples.float(), samples)
    data = SimpleNamespace(
        residency=SimpleNamespace(kind="ram"),
        splits=SimpleNamespace(val=SimpleNamespace(recordings=30)),
    )
    both = (trainer, Mock(spec=LeakModule, device=torch.device("cpu"), data=data))
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


def test_rates_are_of_the_training_without_its_checks(
    alone: Alone, clock: list[float], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer, rows = alone
    with caplog.at_level(DETAIL, LOG.name):
        trained(Speed(Findings(tmp_path), OF_STEPS), trainer, clock, between_s=0.5)
    epoch_s = 2 * 0.25 + 1 + 3 + 2 * 0.5
    assert [row[log_names.SAMPLES_PER_S] for row in rows] == [pytest.approx(32 / epoch_s)] * 2
    for row in rows:
        assert row[log_names.BATCHES_PER_S] == pytest.approx(2 / epoch_s)
        assert row[log_names.CALLBACKS_SHARE] == pytest.approx(0.5 / epoch_s)
        assert row[log_names.CHECK_TIME] == pytest.approx(10)
        assert row[log_names.CHECK_SHARE] == pytest.approx(10 / (10 + epoch_s))
        assert row[log_names.CHECK_RECORDINGS_PER_S] == pytest.approx(3)
        # one of 1.25 s, and 3.75 s from its end to the second one's
        assert row[log_names.BATCH_MEAN] == pytest.approx(2.5)
        assert row[log_names.BATCH_STD] == pytest.approx(1.25)
        assert row[log_names.BATCH_MAX] == pytest.approx(3.75)
    (line,) = [message for message in caplog.messages if message.startswith("speed    ")]
    assert "6 samples/s, 0.364 batches/s (a batch 2,500.0 ± 1,250.0 ms)" in line
    assert "waiting for data 9%, callbacks and loggers 9%; besides, checks took 65%" in line


def test_the_variance_of_the_batches() -> None:
    interval = Interval()
    for seconds in (1.0, 3.0):
        interval.batches.add(seconds)
    numbers = interval.speed_numbers()
    assert (numbers[log_names.BATCH_MEAN], numbers[log_names.BATCH_STD]) == (2, 1)
    assert (numbers[log_names.BATCH_P95], numbers[log_names.BATCH_MAX]) == (3, 3)


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
    trained(Speed(Findings(tmp_path), OF_STEPS), alone[0], clock, between_s, check_s)
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
    monkeypatch.setattr(speed, "LEAST_CALLBACKS_S", 0.2)
    config = configured("trainer.max_epochs=1")
    fit(LeakDataModule(config, demo_store), tmp_path, [Slow()])
    assert warned(tmp_path) == ["callbacks"]


def hundred(callbacks_s: float, times: int = 1) -> Interval:
    """Ten seconds of training, in so many times a hundred batches."""
    return Interval(training_s=10.0, callbacks_s=callbacks_s, batches=Times(count=100 * times))


def test_callbacks_are_slow_above_a_fifth_of_the_training_and_5_ms_a_batch() -> None:
    assert slow_callbacks(hundred(2.0)) is None
    assert slow_callbacks(hundred(4.0, times=10)) is None
    found = slow_callbacks(hundred(4.0))
    assert found is not None
    assert re.search("took 40% .*40 ms ", found.text)


def test_a_check_is_slow_above_half_of_the_time_and_5_s() -> None:
    assert slow_check(Interval(training_s=10.0, check_s=10.0), 1) is None
    assert slow_check(Interval(training_s=1.0, check_s=4.9), 1) is None
    found = slow_check(Interval(training_s=10.0, check_s=15.0), 2)
    assert found is not None
    # 12 epochs of 5 s and a check of 15 s
    assert "took 15 s, 60%" in found.text
    assert re.search(r"trainer\.check_val_every_n_epoch=12 .*20%", found.text)
    within = slow_check(Interval(training_s=10.0, check_s=15.0), 0)
    assert within is not None
    assert "larger trainer.val_check_interval" in within.text


def test_intervals_add_up() -> None:
    total = Interval()
    for seconds in (1.0, 2.0):
        part = Interval(training_s=seconds, check_s=1.0, samples=8)
        part.waits.add(0.5)
        part.batches.add(seconds)
        total.join(part)
    assert (total.samples, total.training_s, total.check_s) == (16, 3, 2)
    assert (total.batches.count, total.waits.total_s) == (2, 1)
    assert (total.batches.mean_s, total.batches.deviation_s) == (1.5, 0.5)


def test_a_training_without_progress_on_screen_says_nothing_of_its_speed(
    alone: Alone, clock: list[float], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer: Any = alone[0]
    trainer.progress_bar_callback = None
    with caplog.at_level(DETAIL, LOG.name):
        trained(Speed(Findings(tmp_path), OF_STEPS), trainer, clock)
    assert not [message for message in caplog.messages if message.startswith("speed")]


def test_a_gpu_is_waited_for_before_a_check_only(
    alone: Alone, clock: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "synchronize", asked.append)
    watch, trainer = Speed(Findings(tmp_path), OF_STEPS), alone[0]
    trained(watch, trainer, clock)
    assert asked == []
    watch.on_validation_start(trainer, module_on("cuda"))
    assert asked == [torch.device("cuda")]
