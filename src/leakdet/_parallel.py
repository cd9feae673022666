"""Work on many files over the cores, results in the order of the input, memory bounded by a few items in flight."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_order(work: Callable[[T], R], items: Iterable[T], workers: int = 0) -> Iterator[tuple[T, R]]:
    """Pairs of item and `work(item)`. 0 workers is one per core.

    Threads, not processes: decoding, FFTs, networks and hashing all release the interpreter lock, and nothing has to be
    started, pickled or imported twice. Each thread computes on one core, so that the cores are not fought over.
    """
    import torch

    threads = torch.get_num_threads()
    count = workers or os.cpu_count() or 1
    waiting: deque[tuple[T, Future[R]]] = deque()
    with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            for item in items:
                waiting.append((item, pool.submit(work, item)))
                if len(waiting) > 2 * count:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            pool.shutdown(cancel_futures=True)
            # the limit reaches beyond its thread: the caller's sums would be rounded otherwise
            torch.set_num_threads(threads)
