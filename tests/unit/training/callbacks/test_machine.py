"""Readings of the machine, taken beside the training and never after it."""

import logging
import re
import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import lightning.pytorch as pl
import psutil
import pytest
import torch

from leakdet.config import CallbacksConfig
from leakdet.core.errors import LeakdetError, install_command
from leakdet.core.messages import LOG
from leakdet.loading.loaders import Wait
from leakdet.training import log_names
from leakdet.training.callbacks import machine, speed
from leakdet.training.callbacks.diagnostics import Findings
from leakdet.training.callbacks.machine import (
    MachineState,
    UseReadings,
    cores,
    disk_stall,
    full_gpu,
    full_memory,
    idle_gpu,
    measured,
    own_bytes,
)
from leakdet.training.callbacks.speed import LEAST_READINGS, SPIKE_S, Speed
from leakdet.training.memory import GpuMemory

Fitted = Callable[..., pl.Trainer]
Alone = tuple[pl.Trainer, list[dict[str, float]]]
Warned = Callable[[Path], list[str]]
GB = 10**9
HEALTHY = GpuMemory(80 * GB, 30 * GB, 20 * GB, 49 * GB, 40 * GB, 49 * GB)
IDLE = MachineState(0.5, 0.3, 0.1, 0, 0, 0.0)
OF_USE = CallbacksConfig(loader_wait=False, step_times=False)


class NVMLError(Exception):
    """As pynvml's: no RuntimeError."""


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[GpuMemory, int], pl.LightningModule]:
    """`gpu(memory, percent)`: a module on a CUDA device of such readings."""

    def make(memory: GpuMemory, percent: int) -> pl.LightningModule:
        monkeypatch.setattr(torch.cuda, "utilization", lambda device: percent)
        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
        monkeypatch.setattr(speed, "read_gpu_memory", lambda device: memory)
        module: pl.LightningModule = Mock(spec=pl.LightningModule, device=torch.device("cuda"))
        return module

    return make


def test_where_the_driver_gives_no_number_the_others_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainer_and_rows: Alone
) -> None:
    def utilization(device: torch.device) -> int:
        raise NVMLError("Not Supported")

    monkeypatch.setattr(torch.cuda, "utilization", utilization)
    assert set(measured(torch.device("cuda"))) == {log_names.CPU_USE, log_names.RAM_USE}
    use, (trainer, rows) = Speed(Findings(tmp_path), OF_USE), trainer_and_rows
    use.use.readings.append(
        {log_names.CPU_USE: 0.5, log_names.RAM_USE: 0.2, log_names.GPU_USE: 0.8}
    )
    use.use.readings.append({log_names.CPU_USE: 0.7, log_names.RAM_USE: 0.4})
    use.on_validation_start(trainer, Mock(spec=pl.LightningModule, device=torch.device("cpu")))
    assert rows == [
        {
            log_names.CPU_USE: pytest.approx(0.6),
            log_names.RAM_USE: pytest.approx(0.3),
            log_names.GPU_USE: 0.8,
        }
    ]


def test_a_check_that_comes_before_the_first_reading_has_one(
    tmp_path: Path, trainer_and_rows: Alone
) -> None:
    use, (trainer, rows) = Speed(Findings(tmp_path), OF_USE), trainer_and_rows
    use.on_validation_start(trainer, Mock(spec=pl.LightningModule, device=torch.device("cpu")))
    assert set(rows[0]) == {log_names.CPU_USE, log_names.RAM_USE}
    trainer.sanity_checking = True
    use.on_validation_start(trainer, Mock(spec=pl.LightningModule, device=torch.device("cpu")))
    assert len(rows) == 1


def test_no_reading_is_taken_after_an_exception(fitted: Fitted, tmp_path: Path) -> None:
    with pytest.raises(LeakdetError, match="validation loss"):
        fitted(tmp_path, "trainer.max_epochs=1", "optimizer.lr=1e30", "optimizer.warmup_epochs=0")
    assert "system use" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize(
    ("memory", "percent", "ram", "kinds"),
    [
        (HEALTHY, 90, 0.5, []),
        (HEALTHY._replace(free=2 * GB, reserved=77 * GB, peak_reserved=77 * GB), 90, 0.5, ["gpu_memory"]),
        (HEALTHY, 20, 0.5, ["gpu"]),
        (HEALTHY, 90, 0.93, ["memory"]),
    ],
)  # fmt: skip
def test_each_fault_has_its_own_sentence_and_a_healthy_machine_none(
    memory: GpuMemory,
    percent: int,
    ram: float,
    kinds: list[str],
    gpu: Callable[[GpuMemory, int], pl.LightningModule],
    trainer_and_rows: Alone,
    warned: Warned,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "host_used_share", lambda: ram)
    use, (trainer, rows), module = (
        Speed(Findings(tmp_path), OF_USE),
        trainer_and_rows,
        gpu(memory, percent),
    )
    use.use.readings.extend(measured(torch.device("cuda")) for _ in range(LEAST_READINGS))
    use.on_validation_start(trainer, module)
    assert warned(tmp_path) == kinds
    assert rows[0][log_names.GPU_USE] == percent / 100
    assert rows[0][log_names.RAM_USE] == ram
    assert rows[0][log_names.GPU_PEAK] == memory.peak_allocated / 1e9


def test_short_epochs_are_judged_together(
    gpu: Callable[[GpuMemory, int], pl.LightningModule],
    trainer_and_rows: Alone,
    warned: Warned,
    tmp_path: Path,
) -> None:
    use, trainer, module = Speed(Findings(tmp_path), OF_USE), trainer_and_rows[0], gpu(HEALTHY, 20)
    for _ in range(LEAST_READINGS):
        assert warned(tmp_path) == []
        use.use.readings.append(measured(torch.device("cuda")))
        use.on_validation_start(trainer, module)
    assert warned(tmp_path) == ["gpu"]


def test_the_missing_reader_is_said_once_and_only_on_a_gpu(
    gpu: Callable[[GpuMemory, int], pl.LightningModule],
    trainer_and_rows: Alone,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine._say_once.cache_clear()
    trainer, module = trainer_and_rows[0], gpu(HEALTHY, 0)

    def utilization(device: torch.device) -> int:
        raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed.")

    monkeypatch.setattr(torch.cuda, "utilization", utilization)
    on_cpu = Mock(spec=pl.LightningModule, device=torch.device("cpu"))
    with caplog.at_level(logging.INFO, LOG.name):
        for training in (on_cpu, module, module):
            use = UseReadings()
            use.start(training.device, says=trainer.is_global_zero)
            use.stop()
    (line,) = caplog.messages
    assert line.startswith("gpu use  not measured: nvidia-ml-py")
    assert install_command("gpu") in line
    assert caplog.records[0].levelno == logging.INFO  # no fault of the training


def test_an_idle_gpu_is_told_below_30_percent() -> None:
    finding = idle_gpu(0.29)
    assert finding is not None
    assert finding.kind == "gpu"
    assert "Raise data.batch_size" in finding.text
    assert idle_gpu(0.3) is None


def test_an_idle_gpu_beside_a_busy_processor_has_another_cause() -> None:
    finding = idle_gpu(0.1, 0.97)
    assert finding is not None
    assert "The processor was busy 97%" in finding.text


@pytest.mark.parametrize(
    ("memory", "place", "says"),
    [
        (HEALTHY._replace(free=2 * GB, reserved=77 * GB, peak_allocated=75 * GB, peak_reserved=77 * GB),
         "ram", "75.0 GB at once: lower data.batch_size; "),
        (HEALTHY._replace(free=2 * GB, reserved=77 * GB, peak_allocated=75 * GB, peak_reserved=77 * GB),
         "device", "(data.residency=ram)"),
        (HEALTHY._replace(free=2 * GB, reserved=77 * GB, peak_reserved=77 * GB), "ram", "expandable_segments"),
        (HEALTHY._replace(free=2 * GB), "ram", "Other programs take 29.0 GB"),
    ],
)  # fmt: skip
def test_the_advice_on_a_full_gpu_goes_by_who_takes_it(
    memory: GpuMemory, place: str, says: str
) -> None:
    finding = full_gpu(memory, place)
    assert finding is not None
    assert re.search(r"^98% .*80\.0 GB", finding.text)
    assert says in finding.text


def test_a_gpu_is_full_above_95_percent() -> None:
    assert full_gpu(HEALTHY._replace(reserved=75 * GB, peak_reserved=75 * GB, free=4 * GB)) is None
    assert (
        full_gpu(HEALTHY._replace(reserved=77 * GB, peak_reserved=77 * GB, free=3 * GB)) is not None
    )


@pytest.mark.parametrize(
    ("place", "says"),
    [("ram", "data.residency=stream"), ("stream", "data.workers"), ("", "end some")],
)
def test_the_advice_on_full_memory_goes_by_where_the_windows_are(place: str, says: str) -> None:
    finding = full_memory(0.93, 12 * GB, place)
    assert "93% of" in finding.text
    assert "12.0 GB" in finding.text
    assert says in finding.text


def test_own_memory_is_that_of_this_process_and_its_children() -> None:
    assert own_bytes() >= psutil.Process().memory_info().rss * 0.9


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        (IDLE, ""),
        (IDLE._replace(disk_stall=0.5), ""),  # of some other program
        (IDLE._replace(read_mb=5), "disk"),
        (IDLE._replace(page_faults=40, cpu=1.0), "disk"),
        (IDLE._replace(cpu=0.9, load=9), "work"),
        (IDLE._replace(load=9), "busy"),
        (IDLE._replace(load=2.4), ""),  # a training fills its cores
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
    state = IDLE._replace(disk_stall=stall)
    assert (state.cause(2, streams=True), state.cause(2, streams=False)) == ("disk", "")


def test_the_state_of_this_machine() -> None:
    state = MachineState.now(Wait(0, False, False, 0.0, 2 * SPIKE_S, SPIKE_S, 3, 4_000_000))
    assert (state.cpu, state.page_faults, state.read_mb) == (0.5, 3, 4)
    assert 0 < state.ram <= 1
    assert state.load >= 0
    assert IDLE.words().startswith(f"load 0.5 on {cores()} cores, memory 30% used, 0 page faults")
