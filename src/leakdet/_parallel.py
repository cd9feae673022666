"""Parallel work on many items, with results in their order and a bounded number in flight."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from leakdet._processes import check_count

T = TypeVar("T")
R = TypeVar("R")


def in_order(
    work: Callable[[T], R], items: Iterable[T], workers: int = 0, ahead: int = 2
) -> Iterator[tuple[T, R]]:
    """Yield pairs of item and `work(item)`, computed by `workers` threads (0: one per core).

    At most `ahead` items a thread are begun or done before their turn; more keep the threads at
    work while the caller does something long with a result, or one item takes long.

    Threads suffice, since decoding, FFTs, networks and hashing release the interpreter lock. Torch
    is limited to one core in each, so that the threads do not compete for cores.

    Raises:
        SettingsError: far more threads than this machine has cores.
    """
    import torch

    check_count("workers", workers)
    threads = torch.get_num_threads()
    count = workers or os.cpu_count() or 1
    waiting: deque[tuple[T, Future[R]]] = deque()
    with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            for item in items:
                waiting.append((item, pool.submit(work, item)))
                if len(waiting) > ahead * count:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            pool.shutdown(cancel_futures=True)
            # the limit applies beyond its thread and would change the rounding of later sums
            torch.set_num_threads(threads)
