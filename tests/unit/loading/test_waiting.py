"""The wait for a batch, and the work of the process meanwhile."""

import time
from collections.abc import Iterator

from leakdet.loading import waiting
from leakdet.loading.waiting import timed


def test_each_batch_has_its_number_and_its_wait() -> None:
    def batches() -> Iterator[str]:
        time.sleep(0.03)
        yield "a"
        yield "b"

    (first, slow), (second, _) = list(timed(batches, 7))
    assert (first, second) == ("a", "b")
    assert slow.seconds >= 0.03
    assert slow.batch == 7
    assert slow.opening
    assert not slow.starting
    assert slow.cpu_s < slow.seconds  # it slept


def test_what_is_done_with_a_batch_is_no_wait() -> None:
    waits = []
    for _, wait in timed(lambda: iter(range(3)), 0):
        waits.append(wait)
        time.sleep(0.05)
    assert [wait.opening for wait in waits] == [True, False, False]
    assert waits[1].asked_s - waits[0].asked_s >= 0.05
    assert sum(wait.seconds for wait in waits) < 0.05


def test_the_work_of_the_process_is_counted(monkeypatch) -> None:
    readings = iter([(10.0, 1.0, 5, 100), (10.5, 1.4, 7, 2100), (11.0, 2.0, 7, 2100)])
    monkeypatch.setattr(waiting, "_reading", lambda: next(readings))
    ((_, wait),) = list(timed(lambda: iter([0]), 3))
    assert wait.cpu_s - 0.4 < 1e-9
    assert (wait.page_faults, wait.read_bytes) == (2, 2000 * 512)


def test_readings_grow() -> None:
    before = waiting._reading()
    sum(range(10_000))
    assert all(now >= then for now, then in zip(waiting._reading(), before, strict=True))


def test_the_first_batch_of_each_reader_is_told_apart() -> None:
    waits = [wait for _, wait in timed(lambda: iter(range(3)), 4, readers=2, starting=True)]
    assert [wait.batch for wait in waits] == [4, 5, 6]
    assert [wait.opening for wait in waits] == [wait.starting for wait in waits]
    assert [wait.starting for wait in waits] == [True, True, False]
