"""How long the network waits for its data."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import pytest

from leakdet.loading.train_loader import TrainLoader
from leakdet.training import log_names
from leakdet.training.callbacks.findings import Findings
from leakdet.training.callbacks.loader_wait import LoaderWait, long_waits, wait_numbers
from leakdet.training.module import LeakModule

Fitted = Callable[..., pl.Trainer]
Warned = Callable[[Path], list[str]]
Rows = list[dict[str, float]]


def test_a_slow_loader(
    fitted: Fitted, warned: Warned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = TrainLoader.__iter__

    def slow(self: TrainLoader) -> Any:
        for batch in plain(self):
            time.sleep(0.08)
            yield batch

    monkeypatch.setattr(TrainLoader, "__iter__", slow)
    fitted(tmp_path, "trainer.max_epochs=1")
    assert warned(tmp_path) == ["loader"]


def test_waits_are_counted_with_their_spacing() -> None:
    assert long_waits([0.001] * 100, 10.0) is None
    assert long_waits([0.001] * 96 + [0.06] * 4, 10.0) is None  # 4 % are spikes
    spiky = long_waits([0.06 if index % 10 == 0 else 0.001 for index in range(100)], 10.0)
    assert spiky is not None
    assert (
        "10 of 100 batches over 50 ms, typically 10 batches apart; worst five 60, 60, 60, 60, 60 ms"
        in spiky.text
    )
    assert long_waits([0.02] * 100, 10.0) is not None  # a fifth of the period, without one spike


@pytest.mark.parametrize(
    ("place", "says", "never"),
    [
        ("stream", "put the store on a local disk", "no disk"),
        ("ram", "in memory, so no disk is the cause", "local disk"),
        ("device", "on the accelerator, so no disk is the cause", "local disk"),
        ("", "system/cpu_share.", "disk"),
    ],
)
def test_the_advice_goes_by_where_the_windows_are(place: str, says: str, never: str) -> None:
    found = long_waits([0.1] * 100, 20.0, place)
    assert found is not None
    assert says in found.text
    assert never not in found.text


def test_the_start_of_reading_processes_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainer_and_rows: tuple[pl.Trainer, Rows]
) -> None:
    """Two processes take 5 s and 4 s to start; later batches wait 0.25 s."""
    now = [100.0]
    monkeypatch.setattr("leakdet.training.callbacks.loader_wait.time.monotonic", lambda: now[0])
    monkeypatch.setattr(Findings, "warn", lambda *_: None)
    watch, (trainer, rows) = LoaderWait(Findings(tmp_path)), trainer_and_rows
    module = Mock(spec=LeakModule)
    module.data = Mock(streams=True, residency=Mock(kind="stream"))
    module.config = Mock(data=Mock(workers=2))
    both = (trainer, module)
    watch.on_train_start(*both)
    watch.on_train_epoch_start(*both)
    for batch, wait_s in enumerate((5.0, 4.0, 0.25, 0.25)):
        now[0] += wait_s
        watch.on_train_batch_start(*both, None, batch)
        now[0] += 1.0
        watch.on_train_batch_end(*both, None, None, batch)
    watch.on_validation_start(*both)
    assert rows[0] == {log_names.WORKER_START: 5.0}
    assert (rows[1][log_names.WAIT_COUNT], rows[1][log_names.WAIT_MAX]) == (2, 0.25)
    assert rows[1][log_names.WAIT_SHARE] == pytest.approx(0.5 / 3.5)


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


def test_an_epochs_first_wait_counts_and_the_share_is_of_the_time_since_the_last_check(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trainer_and_rows: tuple[pl.Trainer, Rows],
) -> None:
    """An epoch of four batches of 1 s, each after a wait of 0.25 s; a check of 10 s after two."""
    now = [100.0]
    monkeypatch.setattr("leakdet.training.callbacks.loader_wait.time.monotonic", lambda: now[0])
    monkeypatch.setattr(Findings, "warn", lambda *_: None)
    watch, (trainer, rows) = LoaderWait(Findings(tmp_path)), trainer_and_rows
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
    # the wait after a check is the check's
    assert [row[log_names.WAIT_COUNT] for row in rows] == [2, 1]
    assert [row[log_names.WAIT_SHARE] for row in rows] == pytest.approx([0.5 / 2.5, 0.25 / 2.5])
