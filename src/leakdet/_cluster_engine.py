"""Work on many items by the workers of a cluster."""

import os
import platform
import queue
import socket
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import leakdet
from leakdet._cluster_address import local_count
from leakdet._messages import LOG
from leakdet.errors import InputError, SettingsError, counted

T = TypeVar("T")
R = TypeVar("R")

LOOK_EVERY_S = 1.0  # at the workers
SAY_EVERY_S = 60.0  # that there is none
GIVE_UP_S = 120.0  # without a worker of this machine, which Dask may not have started again


class KillsWorkersError(InputError):
    """An item ends the process of whatever worker has it; `reason` says so without its name."""

    def __init__(self, item: object, kills: int) -> None:
        self.reason = (
            f"killed its worker {counted(kills, 'time')}, with nothing else at work: out of "
            "memory, or a fault in a library"
        )
        super().__init__(f"{item}: {self.reason}. Leave it out.")


@dataclass
class Engine:
    """A cluster at work."""

    client: Any
    address: str
    _threads: dict[str, int] = field(default_factory=dict)  # of each worker, by address
    _looked_at: float = -LOOK_EVERY_S
    _told_at: float = -SAY_EVERY_S
    _none_since: float | None = None  # when the last worker was lost

    def unordered(
        self,
        work: Callable[[T], R],
        items: Iterable[T],
        in_flight: int = 4,
        suspected: Callable[[T], R] | None = None,
    ) -> Generator[tuple[T, R], None, None]:
        """Yield pairs of item and `work(item)` as they are completed.

        `work` and the items are pickled, `work` for every item: it names a model or a folder, and
        keeps what it loads by a cache of its module. At most `in_flight` items are with each thread
        of a worker, which has one thread where the cluster is local. The items of a worker that is
        lost are done again, so that `work` must bear that. An item that is with one worker after
        another when it is lost is tried by `alone`, or gets its result from `suspected`, while
        nothing else is at work. An error in `work` is raised here as what it is.

        Raises:
            KillsWorkersError, InputError, SettingsError: as `alone`.
        """
        flight = _Flight(self, work)
        waiting, suspects = iter(items), list[T]()
        try:
            while True:
                if not suspects:
                    while flight.size < self._room(in_flight) and not flight.exhausted:
                        flight.send_next(waiting)
                elif not flight.size:
                    item = suspects.pop()
                    yield item, suspected(item) if suspected else self.alone(work, item)
                    continue
                if not flight.size:
                    return
                item, result, kills = flight.receive()
                if kills:
                    suspects.append(item)
                else:
                    yield item, result
        finally:
            flight.cancel()

    def alone(self, work: Callable[[T], R], item: T) -> R:
        """`work(item)` by a worker, where nothing else is at work.

        Raises:
            KillsWorkersError: the item, named by its `str`, killed its workers.
            InputError: the scheduler is lost.
            SettingsError: a worker has another version of leakdet or Python.
        """
        flight = _Flight(self, work)
        try:
            flight.send(item)
            _, result, kills = flight.receive()
        finally:
            flight.cancel()
        if kills:
            raise KillsWorkersError(item, kills)
        return cast(R, result)

    def _room(self, in_flight: int) -> int:
        self.look()
        return max(1, in_flight * sum(self._threads.values()))

    def look(self) -> None:
        """See who works, at most once a second; say who was lost, and that nobody is there."""
        now = time.monotonic()
        if now < self._looked_at + LOOK_EVERY_S:
            return
        self._looked_at = now
        try:
            threads = dict(self.client.nthreads())
        except Exception as error:
            raise self.lost_scheduler() from error
        lost = self._threads.keys() - threads.keys()
        if lost:
            LOG.warning(
                f"{counted(len(lost), 'worker')} of the cluster lost; "
                f"{len(threads)} left. What they had in hand is done again."
            )
        if threads and not self._threads:
            LOG.info(
                f"cluster  {self.address}: {counted(len(threads), 'worker')}, "
                f"{counted(sum(threads.values()), 'thread')}"
            )
        self._threads = threads
        self._none_since = None if threads else self._none_since or now
        if self._none_since and now >= self._none_since + GIVE_UP_S and local_count(self.address):
            raise InputError(
                f"cluster {self.address}: all workers ended, and none was started again. Start the "
                "same command again."
            )
        if not threads and now >= self._told_at + SAY_EVERY_S:
            self._told_at = now
            LOG.warning(f"cluster {self.address}: no worker is there yet. {self._start()}")

    def _start(self) -> str:
        if local_count(self.address) is not None:
            return "They are being started."
        file = "--scheduler-file " if self.address.endswith(".json") else ""
        return f"Start some, on any machine: dask worker {file}{self.address} --nthreads 1"

    def lost_scheduler(self) -> InputError:
        return InputError(
            f"cluster {self.address}: the scheduler is lost. Start one, and the same command again."
        )


@dataclass
class _Flight:
    """The items that the cluster has in hand."""

    engine: Engine
    work: Callable[[Any], Any]
    exhausted: bool = False
    _items: dict[Any, Any] = field(default_factory=dict)  # by future
    _done: "queue.SimpleQueue[Any]" = field(default_factory=queue.SimpleQueue)

    @property
    def size(self) -> int:
        return len(self._items)

    def send_next(self, items: Iterator[Any]) -> None:
        try:
            self.send(next(items))
        except StopIteration:
            self.exhausted = True

    def send(self, item: Any) -> None:
        future = self.engine.client.submit(_run, _versions(), self.work, item, pure=False)
        self._items[future] = item
        future.add_done_callback(self._done.put)

    def receive(self) -> tuple[Any, Any, int]:
        """The next item that is done, its result, and how many lost workers had it instead."""
        from distributed import CancelledError, KilledWorker

        while True:
            self.engine.look()
            try:
                future = self._done.get(timeout=LOOK_EVERY_S)
            except queue.Empty:
                continue
            if future.status == "pending":  # its result was on a worker that is lost
                future.add_done_callback(self._done.put)
                continue
            item = self._items[future]
            try:
                return item, future.result(), 0
            except KilledWorker as error:
                return item, None, error.allowed_failures + 1
            except CancelledError as error:
                raise self.engine.lost_scheduler() from error
            except ModuleNotFoundError as error:
                raise _other_install(error) from error
            finally:
                del self._items[future]
                future.release()

    def cancel(self) -> None:
        """Drop what is still in hand."""
        with suppress(Exception):  # the scheduler may be gone
            self.engine.client.cancel(list(self._items), force=True)
        self._items.clear()


def _other_install(error: ModuleNotFoundError) -> SettingsError | ModuleNotFoundError:
    if (error.name or "").split(".")[0] != "leakdet":
        return error
    return SettingsError(
        f"cluster: a worker has no leakdet of this version ({error}). Install leakdet "
        f"{leakdet.__version__} where `dask worker` runs."
    )


def _versions() -> tuple[str, str]:
    """Of leakdet, and of Python without its patch level."""
    return leakdet.__version__, ".".join(platform.python_version_tuple()[:2])


def _run(versions: tuple[str, str], work: Callable[[T], R], item: T) -> R:
    """Do the work in a thread of a worker: torch, which it may import, on one core."""
    if versions != _versions():
        theirs, here = (f"leakdet {v} on Python {python}" for v, python in (versions, _versions()))
        raise SettingsError(
            f"cluster: the worker {socket.gethostname()} (process {os.getpid()}) has {here}, this "
            f"command {theirs}. Install the same on all machines."
        )
    os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is imported
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    return work(item)
