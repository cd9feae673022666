import threading
import time

import pytest
import torch

from leakdet._parallel import in_order


def test_results_come_in_the_order_of_the_items():
    def work(item: int) -> int:
        time.sleep(0.002 * (item % 3))
        return item * item

    assert list(in_order(work, range(20), workers=4)) == [(n, n * n) for n in range(20)]


def test_items_are_taken_only_a_few_ahead():
    taken: list[int] = []
    results = in_order(lambda item: item, (taken.append(n) or n for n in range(1000)), 2)
    next(results)
    assert len(taken) <= 2 * 2 + 1
    results.close()


def test_threads_work_ahead_while_the_caller_is_busy():
    done = threading.Semaphore(0)
    results = in_order(lambda item: done.release() or item, range(1000), 2, ahead=30)
    next(results)
    for _ in range(60):  # without another item being asked for
        assert done.acquire(timeout=10)
    results.close()


def test_each_thread_computes_on_one_core_and_the_caller_gets_its_own_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    barrier = threading.Barrier(2, timeout=10)

    def work(_: int) -> int:
        barrier.wait()  # both threads are at work
        return torch.get_num_threads()

    try:
        assert [count for _, count in in_order(work, range(4), workers=2)] == [1] * 4
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_an_error_reaches_the_caller_and_cancels_the_rest():
    done: list[int] = []

    def work(item: int) -> int:
        done.append(item)
        if item == 3:
            raise ValueError("three")
        return item

    with pytest.raises(ValueError, match="three"):
        list(in_order(work, range(1000), workers=1))
    assert len(done) < 10
