"""How long the network waits for its data."""

import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import pytest

from leakdet._messages import LOG
from leakdet.loading.in_memory import InMemoryLoader
from leakdet.loading.train_loader import TrainLoader
from leakdet.loading.waiting import Wait
from leakdet.training import log_names
from leakdet.training.callbacks import loader_wait
from leakdet.training.callbacks.findings import Findings
from leakdet.training.callbacks.loader_wait import LoaderWait, long_waits
from leakdet.training.wait_times import SPIKE_S, MachineState, WaitTimes

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
    monkeypatch.setattr(loader_wait, "SAID", 2)
    with caplog.at_level(logging.INFO, LOG.name):
        fitted(tmp_path, "trainer.max_epochs=1")
    assert warned(tmp_path) == ["loader"]
    live = [line for line in caplog.messages if "ms for data (load" in line]
    # the first batch begins the epoch, and one or two others may be chance
    assert live[0].startswith("epoch 1, batch 4: waited ")
    assert len(live) == loader_wait.SAID
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
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(loader_wait.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Findings, "warn", lambda *_: None)
    return now


def waited(
    trainer: Any, seconds: float, batch: int, readers: int = 1, starting: bool = False
) -> None:
    opening = batch < readers
    wait = Wait(batch, opening, opening and starting, 0.0, seconds, 0.0, 0, 0)
    trainer.train_dataloader = Mock(spec=TrainLoader, wait=wait)


def test_the_start_of_reading_processes_is_told_apart(
    tmp_path: Path, clock: list[float], trainer_and_rows: tuple[pl.Trainer, Rows]
) -> None:
    """Two processes take 5 s and 4 s to start; later batches wait 0.25 s."""
    watch, (trainer, rows) = LoaderWait(Findings(tmp_path)), trainer_and_rows
    both = (trainer, Mock(spec=pl.LightningModule))
    watch.on_train_start(*both)
    watch.on_train_epoch_start(*both)
    for batch, wait_s in enumerate((5.0, 4.0, 0.25, 0.25)):
        clock[0] += wait_s
        waited(trainer, wait_s, batch, readers=2, starting=True)
        watch.on_train_batch_start(*both, None, batch)
        clock[0] += 1.0
    watch.on_validation_start(*both)
    assert rows[0] == {log_names.WORKER_START: 5.0}
    assert [row[log_names.SPIKE] for row in rows[1:3]] == [0.25, 0.25]
    assert [row[log_names.SPIKE_BATCH] for row in rows[1:3]] == [3, 4]
    assert (rows[3][log_names.WAIT_COUNT], rows[3][log_names.WAIT_MAX]) == (2, 0.25)
    assert rows[3][log_names.WAIT_SHARE] == pytest.approx(0.5 / 3.5)


def test_the_first_batches_of_an_epoch_are_waits_but_no_spikes(
    tmp_path: Path, clock: list[float], trainer_and_rows: tuple[pl.Trainer, Rows]
) -> None:
    """The second epoch of two reading processes, which begin to read anew."""
    watch, (trainer, rows) = LoaderWait(Findings(tmp_path)), trainer_and_rows
    both = (trainer, Mock(spec=pl.LightningModule))
    watch.on_train_start(*both)
    for batch, wait_s in enumerate((3.0, 2.0, 0.01, 0.3)):
        waited(trainer, wait_s, batch, readers=2)
        watch.on_train_batch_start(*both, None, batch)
    clock[0] += 10.0
    watch.on_validation_start(*both)
    assert rows[-1][log_names.WAIT_SPIKES] == 1
    assert rows[-1][log_names.WAIT_SHARE] == pytest.approx(5.31 / 10)


def test_spikes_are_logged_up_to_a_number(
    tmp_path: Path, clock: list[float], trainer_and_rows: tuple[pl.Trainer, Rows]
) -> None:
    watch, (trainer, rows) = LoaderWait(Findings(tmp_path)), trainer_and_rows
    both = (trainer, Mock(spec=pl.LightningModule))
    watch.on_train_start(*both)
    for batch in range(1, loader_wait.LOGGED + 11):
        waited(trainer, 0.2, batch)
        watch.on_train_batch_start(*both, None, batch)
    assert len(rows) == loader_wait.LOGGED
    assert watch.waits.spikes == loader_wait.LOGGED + 10


def test_a_wait_that_is_rare_is_logged_and_not_said(
    tmp_path: Path,
    clock: list[float],
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
    tmp_path: Path, clock: list[float], trainer_and_rows: tuple[pl.Trainer, Rows]
) -> None:
    """An epoch of four batches of 1 s, each after a wait of 0.25 s; a check of 10 s after two."""
    watch, (trainer, rows) = LoaderWait(Findings(tmp_path)), trainer_and_rows
    both = (trainer, Mock(spec=pl.LightningModule))
    watch.on_train_start(*both)
    watch.on_train_epoch_start(*both)
    for batch in range(4):
        clock[0] += 0.25
        waited(trainer, 0.25, batch)
        watch.on_train_batch_start(*both, None, batch)
        clock[0] += 1.0
        if batch % 2:
            watch.on_validation_start(*both)
            clock[0] += 10.0
            watch.on_validation_end(*both)
    checks = [row for row in rows if log_names.WAIT_COUNT in row]
    assert [row[log_names.WAIT_COUNT] for row in checks] == [2, 2]
    assert [row[log_names.WAIT_SPIKES] for row in checks] == [1, 2]
    assert [row[log_names.WAIT_SHARE] for row in checks] == pytest.approx([0.2, 0.2])
