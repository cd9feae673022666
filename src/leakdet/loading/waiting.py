"""How long a training waits for each batch, and what its process does meanwhile."""

import operator
import resource
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

T = TypeVar("T")
BLOCK = 512  # bytes, in which the kernel counts what is read from a disk


class Wait(NamedTuple):
    """The wait for a batch: when and how long, and the counts of this process and its threads."""

    batch: int  # number in its epoch
    opening: bool  # the first batch of its reader since the epoch began or was resumed
    starting: bool  # the reader is a process that had to start
    asked_s: float  # on the clock of time.monotonic
    seconds: float
    cpu_s: float  # processor time of all threads
    page_faults: int  # that were answered from a disk
    read_bytes: int  # from a disk; what was cached counts nothing


def timed(
    batches: Callable[[], Iterator[T]], first: int, readers: int = 1, starting: bool = False
) -> Iterator[tuple[T, Wait]]:
    """Batches, the first of which has the number `first` in its epoch, each with its wait.

    So many readers make them in turn; `starting`: they are processes that start. Two readings cost
    some five microseconds a batch.
    """
    began = _reading()
    for number, batch in enumerate(batches(), first):
        seconds, cpu_s, faults, blocks = map(operator.sub, _reading(), began)
        opening = number - first < readers
        counts = (cpu_s, int(faults), int(blocks) * BLOCK)
        yield batch, Wait(number, opening, opening and starting, began[0], seconds, *counts)
        began = _reading()


def _reading() -> tuple[float, float, int, int]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = usage.ru_utime + usage.ru_stime
    return time.monotonic(), cpu_s, usage.ru_majflt, usage.ru_inblock
