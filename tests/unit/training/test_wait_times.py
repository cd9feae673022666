"""Waits in bounded memory, and what the machine did in the long ones."""

from pathlib import Path

import pytest

from leakdet.loading.waiting import Wait
from leakdet.training import log_names
from leakdet.training.wait_times import (
    KEPT,
    SPIKE_S,
    MachineState,
    WaitTimes,
    cores,
    disk_stall,
    quantile,
)

IDLE = MachineState(0.5, 0.3, 0.1, 0, 0, 0.0)


def test_the_numbers_of_the_waits() -> None:
    waits = WaitTimes()
    long = {10: 0.1, 30: 0.2, 60: 0.3}
    for index in range(100):
        waits.add(long.get(index, 0.001))
        if index in long:
            waits.add_spike(IDLE)
    numbers = waits.numbers(2.0)
    assert (numbers[log_names.WAIT_COUNT], numbers[log_names.WAIT_SPIKES]) == (100, 3)
    assert numbers[log_names.WAIT_SPACING] == 25
    assert (numbers[log_names.WAIT_MEDIAN], numbers[log_names.WAIT_MAX]) == (0.001, 0.3)
    assert [numbers[name] for name in log_names.WAIT_WORST] == [0.2, 0.1, 0.001, 0.001]
    assert numbers[log_names.WAIT_SHARE] == pytest.approx((0.6 + 97 * 0.001) / 2.0)


def test_one_spike_has_no_spacing() -> None:
    waits = WaitTimes()
    waits.add(0.1)
    waits.add_spike(IDLE)
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
        waits.add_spike(IDLE._replace(load=load))
    assert waits.state.load == 2.0
    assert waits.state.words().startswith(f"load 2.0 on {cores()} cores, memory 30% used, 0 page")


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


def test_a_quantile_is_one_of_the_values() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([1.0], 0.95) == 1.0
