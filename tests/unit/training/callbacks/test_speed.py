import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import pytest
import torch

from leakdet.config import TrainConfig
from leakdet.core.messages import LOG
from leakdet.loading.loaders import InMemoryLoader, TrainLoader, Wait
from leakdet.loading.samples import Batch
from leakdet.training import log_names
from leakdet.training.callbacks import speed
from leakdet.training.callbacks.diagnostics import Findings
from leakdet.training.callbacks.speed import (
    KEPT,
    SPIKE_S,
    LoaderWait,
    MachineState,
    StepTimes,
    Stretch,
    WaitTimes,
    cores,
    disk_stall,
    long_waits,
    quantile,
    slow_callbacks,
    slow_check,
)
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import fit

NO_WAITS = MachineState(0.5, 0.3, 0.1, 0, 0, 0.0)


def test_the_numbers_of_the_waits() -> None:
    waits = WaitTimes()
    long = {10: 0.1, 30: 0.2, 60: 0.3}
    for index in range(100):
        waits.add(long.get(index, 0.001))
        if index in long:
            waits.add_spike(NO_WAITS)
    numbers = waits.numbers(2.0)
    assert (numbers[log_names.WAIT_COUNT], numbers[log_names.WAIT_SPIKES]) == (100, 3)
    assert numbers[log_names.WAIT_SPACING] == 25
    assert (numbers[log_names.WAIT_MEDIAN], numbers[log_names.WAIT_MAX]) == (0.001, 0.3)
    assert [numbers[name] for name in log_names.WAIT_WORST] == [0.2, 0.1, 0.001, 0.001]
    assert numbers[log_names.WAIT_SHARE] == pytest.approx((0.6 + 97 * 0.001) / 2.0)


def test_one_spike_has_no_spacing() -> None:
    waits = WaitTimes()
    waits.add(0.1)
    waits.add_spike(NO_WAITS)
    assert log_names.WAIT_SPACING not in waits.numbers(2.0)


def test_memory_is_bounded_and_count_and_worst_are_of_all() -> None:
    waits = WaitTimes()
    for index in range(KEPT + 100):
        waits.add(1.0 if index == 0 else 0.001)
    assert len(waits.latest_s) == KEPT
    assert waits.count == KEPT + 100
    assert waits.worst_s[0] == 1.0
    assert waits.total_s == pytest.approx(1 + (KEPT + 99) * 0.001)


def test_the_state_is_the_mean_over_the_spikes() -> None:
    waits = WaitTimes()
    for load in (1.0, 3.0):
        waits.add(1.0)
        waits.add_spike(NO_WAITS._replace(load=load))
    assert waits.state.load == 2.0
    assert waits.state.words().startswith(f"load 2.0 on {cores()} cores, memory 30% used, 0 page")


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        (NO_WAITS, ""),
        (NO_WAITS._replace(disk_stall=0.5), ""),  # of some other program
        (NO_WAITS._replace(read_mb=5), "disk"),
        (NO_WAITS._replace(page_faults=40, cpu=1.0), "disk"),
        (NO_WAITS._replace(cpu=0.9, load=9), "work"),
        (NO_WAITS._replace(load=9), "busy"),
        (NO_WAITS._replace(load=2.4), ""),  # a training fills its cores
    ],
)
def test_the_cause_of_a_spike(state: MachineState, cause: str) -> None:
    assert state.cause(2, streams=False) == cause


def test_the_reads_of_other_processes_show_in_the_disk_waits_of_the_machine(tmp_path: Path) -> None:
    pressure = tmp_path / "io"
    pressure.write_text("some avg10=34.50 avg60=9.00 avg300=1.00 total=1\nfull avg10=1.00\n")
    stall = disk_stall(pressure)
    assert stall == pytest.approx(0.345)
    assert disk_stall(tmp_path / "none") == 0
    state = NO_WAITS._replace(disk_stall=stall)
    assert (state.cause(2, streams=True), state.cause(2, streams=False)) == ("disk", "")


def test_the_state_of_this_machine() -> None:
    state = MachineState.now(Wait(0, False, False, 0.0, 2 * SPIKE_S, SPIKE_S, 3, 4_000_000))
    assert (state.cpu, state.page_faults, state.read_mb) == (0.5, 3, 4)
    assert 0 < state.ram <= 1
    assert state.load >= 0


def test_a_quantile_is_one_of_the_values() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([1.0], 0.95) == 1.0


Fitted = Callable[..., pl.Trainer]
Warned = Callable[[Path], list[str]]
Rows = list[dict[str, float]]
IDLE = MachineState(0.0, 0.3, 0.1, 0, 0, 0.0)


def waits_of(seconds: Iterable[float], state: MachineState = IDLE) -> WaitTimes:
    waits = WaitTimes()
    for wait in seconds:
        waits.add(wait)
        if wait > SPIKE_S:
            waits.add_spike(state)
    return waits


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
    monkeypatch.setattr(speed, "SAID", 2)
    with caplog.at_level(logging.INFO, LOG.name):
        fitted(tmp_path, "trainer.max_epochs=1")
    assert warned(tmp_path) == ["loader"]
    live = [line for line in caplog.messages if "ms for data (load" in line]
    # the first batch begins the epoch, and one or two others may be chance
    assert live[0].startswith("epoch 1, batch 4: waited ")
    assert len(live) == speed.SAID
    assert live[-1].endswith("; further ones are only logged")
    summary = (tmp_path / log_names.WARNINGS).read_text()
    assert "in them on average load" in summary


def test_waits_are_counted_with_their_spacing() -> None:
    assert long_waits(waits_of([0.001] * 100), 10.0) is None
    assert long_waits(waits_of([0.001] * 96 + [0.06] * 4), 10.0) is None  # 4 % are spikes
    spiky = long_waits(waits_of(0.06 if index % 10 == 0 else 0.001 for index in range(100)), 10.0)
    assert spiky is not None
    assert "10 of 100 batches over 50 ms, typically 10 batches apart (in them" in spiky.text
    assert "worst five 60, 60, 60, 60, 60 ms" in spiky.text
    assert long_waits(waits_of([0.02] * 100), 10.0) is not None  # a fifth of it, without a spike


@pytest.mark.parametrize(
    ("place", "state", "says", "never"),
    [
        ("stream", IDLE, "put the store on a local disk, raise data.workers", "no disk"),
        ("stream", IDLE._replace(read_mb=9), "local disk", "data.workers"),
        ("stream", IDLE._replace(disk_stall=0.5), "The disk was read", "data.workers"),
        ("ram", IDLE._replace(disk_stall=0.5), "so no disk is the cause", "The disk was read"),
        ("stream", IDLE._replace(cpu=1), "raise data.workers", "local disk"),
        ("stream", IDLE._replace(load=1e3), "lower threads and data.workers", "local disk"),
        ("ram", IDLE, "in memory, so no disk is the cause", "local disk"),
        ("ram", IDLE._replace(page_faults=99), "leave too little memory", "local disk"),
        ("ram", IDLE._replace(cpu=1), "Putting a batch together", "local disk"),
        ("ram", IDLE._replace(load=1e3), "More wants to run than there are cores", "local disk"),
        ("device", IDLE, "on the accelerator, so no disk is the cause", "local disk"),
        ("device", IDLE._replace(load=1e3), "More wants to run", "local disk"),
        ("device", IDLE._replace(cpu=1), "on the accelerator, so no disk", "local disk"),
        ("", IDLE, "see system/cpu_share.", "the disk was read"),
    ],
)
def test_the_advice_goes_by_where_the_windows_are_and_by_the_cause(
    place: str, state: MachineState, says: str, never: str
) -> None:
    found = long_waits(waits_of([0.1] * 100, state), 20.0, place)
    assert found is not None
    assert says in found.text
    assert never not in found.text


@pytest.fixture
def loader_clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(speed.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Findings, "warn", lambda *_: None)
    return now


def waited(
    trainer: Any, seconds: float, batch: int, readers: int = 1, starting: bool = False
) -> None:
    opening = batch < readers
    wait = Wait(batch, opening, opening and starting, 0.0, seconds, 0.0, 0, 0)
    trainer.train_dataloader = Mock(spec=TrainLoader, wait=wait)


def test_the_start_of_reading_processes_is_told_apart(
    tmp_path: Path, loader_clock: list[float], trainer_and_rows: tuple[pl.Trainer, Rows]
) -> None:
    """Two processes take 5 s and 4 s to start; later batches wait 0.25 s."""
    watch, (trainer, rows) = LoaderWait(Findings(tmp_path)), trainer_and_rows
    both = (trainer, Mock(spec=pl.LightningModule))
    watch.on_train_start(*both)
    watch.on_train_epoch_start(*both)
    for batch, wait_s in enumerate((5.0, 4.0, 0.25, 0.25)):
        loader_clock[0] += wait_s
        waited(trainer, wait_s, batch, readers=2, starting=True)
        watch.on_train_batch_start(*both, None, batch)
        loader_clock[0] += 1.0
    watch.on_validation_start(*both)
    assert rows[0] == {log_names.WORKER_START: 5.0}
    assert [row[log_names.SPIKE] for row in rows[1:3]] == [0.25, 0.25]
    assert [row[log_names.SPIKE_BATCH] for row in rows[1:3]] == [3, 4]
    assert (rows[3][log_names.WAIT_COUNT], rows[3][log_names.WAIT_MAX]) == (2, 0.25)
    assert rows[3][log_names.WAIT_SHARE] == pytest.approx(0.5 / 3.5)


def test_the_first_batches_of_an_epoch_are_waits_but_no_spikes(
    tmp_path: Path, loader_clock: list[float], trainer_and_rows: tuple[pl.Trainer, Rows]
) -> None:
    """The second epoch of two reading processes, which begin to read anew."""
    watch, (trainer, rows) = LoaderWait(Findings(tmp_path)), trainer_and_rows
    both = (trainer, Mock(spec=pl.LightningModule))
    watch.on_train_start(*both)
    for batch, wait_s in enumerate((3.0, 2.0, 0.01, 0.3)):
        waited(trainer, wait_s, batch, readers=2)
        watch.on_train_batch_start(*both, None, batch)
    loader_clock[0] += 10.0
    watch.on_validation_start(*both)
    assert rows[-1][log_names.WAIT_SPIKES] == 1
    assert rows[-1][log_names.WAIT_SHARE] == pytest.approx(5.31 / 10)


def test_spikes_are_logged_up_to_a_number(
    tmp_path: Path, loader_clock: list[float], trainer_and_rows: tuple[pl.Trainer, Rows]
) -> None:
    watch, (trainer, rows) = LoaderWait(Findings(tmp_path)), trainer_and_rows
    both = (trainer, Mock(spec=pl.LightningModule))
    watch.on_train_start(*both)
    for batch in range(1, speed.LOGGED + 11):
        waited(trainer, 0.2, batch)
        watch.on_train_batch_start(*both, None, batch)
    assert len(rows) == speed.LOGGED
    assert watch.waits.spikes == speed.LOGGED + 10


def test_a_wait_that_is_rare_is_logged_and_not_said(
    tmp_path: Path,
    loader_clock: list[float],
    trainer_and_rows: tuple[pl.Trainer, Rows],
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch, (trainer, rows) = LoaderWait(Findings(tmp_path)), trainer_and_rows
    both = (trainer, Mock(spec=pl.LightningModule))
    watch.on_train_start(*both)
    with caplog.at_level(logging.INFO, LOG.name):
        for batch in range(100):
            waited(trainer, 0.2 if batch in (30, 60) else 0.001, batch)
            watch.on_train_batch_start(*both, None, batch)
    assert len(rows) == 2
    assert caplog.messages == []


def test_a_check_in_between_is_no_wait_and_the_share_is_of_the_time_since_the_last_check(
    tmp_path: Path, loader_clock: list[float], trainer_and_rows: tuple[pl.Trainer, Rows]
) -> None:
    """An epoch of four batches of 1 s, each after a wait of 0.25 s; a check of 10 s after two."""
    watch, (trainer, rows) = LoaderWait(Findings(tmp_path)), trainer_and_rows
    both = (trainer, Mock(spec=pl.LightningModule))
    watch.on_train_start(*both)
    watch.on_train_epoch_start(*both)
    for batch in range(4):
        loader_clock[0] += 0.25
        waited(trainer, 0.25, batch)
        watch.on_train_batch_start(*both, None, batch)
        loader_clock[0] += 1.0
        if batch % 2:
            watch.on_validation_start(*both)
            loader_clock[0] += 10.0
            watch.on_validation_end(*both)
    checks = [row for row in rows if log_names.WAIT_COUNT in row]
    assert [row[log_names.WAIT_COUNT] for row in checks] == [2, 2]
    assert [row[log_names.WAIT_SPIKES] for row in checks] == [1, 2]
    assert [row[log_names.WAIT_SHARE] for row in checks] == pytest.approx([0.2, 0.2])


Alone = tuple[pl.Trainer, list[dict[str, float]]]


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
    monkeypatch.setattr(speed.time, "monotonic", lambda: now[0])
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
    monkeypatch.setattr(speed, "LEAST_CALLBACKS_S", 0.2)
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
