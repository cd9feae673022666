"""Parallel work on many items, by threads here or by the workers of a Dask cluster.

A cluster's address is `local:N`, N processes of this machine; `tcp://…` or `tls://…`; or the JSON
file that `dask scheduler --scheduler-file` wrote. Nothing else knows Dask.
"""

import json
import logging
import os
import platform
import queue
import re
import signal
import socket
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar, cast

import leakdet
from leakdet.core.errors import InputError, SettingsError, counted, install_command
from leakdet.core.messages import LOG
from leakdet.core.process import check_count

T = TypeVar("T")
R = TypeVar("R")


def in_order(work: Callable[[T], R], items: Iterable[T], workers: int = 0) -> Iterator[tuple[T, R]]:
    """Yield pairs of item and `work(item)`, computed by `workers` threads (0: one per core).

    At most two items a thread are begun or done before their turn.

    Threads suffice, since decoding, FFTs, networks and hashing release the interpreter lock. Torch
    is limited to one core in each, so that the threads do not compete for cores.
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
                if len(waiting) > 2 * count:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            pool.shutdown(cancel_futures=True)
            # the limit applies beyond its thread and would change the rounding of later sums
            torch.set_num_threads(threads)


SCHEDULER = re.compile(r"(tcp|tls)://[^/]+:\d+")
ADDRESSES = "local:N, the JSON file of a scheduler, tcp://HOST:PORT or tls://HOST:PORT"


def check_cluster(name: str, address: str) -> None:
    """Check the address of a cluster before anything is begun; `name` is the setting."""
    if find_spec("distributed") is None:
        raise SettingsError(f"{name}={address}: needs Dask: {install_command('cluster')}")
    if (count := local_count(address)) is not None:
        if count == 0:
            raise SettingsError(f"{name}={address}: allowed are 1 process or more.")
        check_count(f"{name}=local:N, N", count)
    elif not SCHEDULER.fullmatch(address):
        if not address.endswith(".json"):
            raise SettingsError(f"{name}={address}: allowed are {ADDRESSES}.")
        if not Path(address).is_file():
            raise InputError(
                f"{name}={address}: there is no such file. A scheduler writes it: "
                f"dask scheduler --scheduler-file {address}"
            )


def local_count(address: str) -> int | None:
    """N of `local:N`."""
    kind, _, number = address.partition(":")
    return int(number) if kind == "local" and number.isdecimal() else None


def scheduler_address(address: str) -> str:
    """The address that a scheduler wrote into its file, or the one that is given."""
    if not address.endswith(".json"):
        return address
    try:
        return str(json.loads(Path(address).read_text())["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"cluster {address}: this is no file of a scheduler ({type(error).__name__}: {error}). "
            f"Write it anew: dask scheduler --scheduler-file {address}"
        ) from error


POLL_EVERY_S = 1.0  # at the workers
WARN_EVERY_S = 60.0  # that there is none
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
    _looked_at: float = -POLL_EVERY_S
    _told_at: float = -WARN_EVERY_S
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
        another when it is lost is tried by `run_isolated`, or gets its result from `suspected`,
        while nothing else is at work. An error in `work` is raised here as what it is.
        """
        flight = _Pending(self, work)
        waiting, suspects = iter(items), list[T]()
        try:
            while True:
                if not suspects:
                    while flight.size < self._room(in_flight) and not flight.exhausted:
                        flight.send_next(waiting)
                elif not flight.size:
                    item = suspects.pop()
                    yield item, suspected(item) if suspected else self.run_isolated(work, item)
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

    def run_isolated(self, work: Callable[[T], R], item: T) -> R:
        """`work(item)` by a worker, where nothing else is at work."""
        flight = _Pending(self, work)
        try:
            flight.send(item)
            _, result, kills = flight.receive()
        finally:
            flight.cancel()
        if kills:
            raise KillsWorkersError(item, kills)
        return cast(R, result)

    def _room(self, in_flight: int) -> int:
        self.poll_workers()
        return max(1, in_flight * sum(self._threads.values()))

    def poll_workers(self) -> None:
        """See who works, at most once a second; say who was lost, and that nobody is there."""
        now = time.monotonic()
        if now < self._looked_at + POLL_EVERY_S:
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
        if not threads and now >= self._told_at + WARN_EVERY_S:
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
class _Pending:
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
            self.engine.poll_workers()
            try:
                future = self._done.get(timeout=POLL_EVERY_S)
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


REACH_S = 10.0  # within which a scheduler must answer
KILLS = 3  # of workers of this machine, by the items that they had; then an item is tried alone
# Nothing of Dask's own is printed, and its HTTP servers, which it always starts, serve nothing.
SETTINGS = {
    "distributed.scheduler.allowed-failures": KILLS - 1,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "critical",
    # Dask has freed memory given back at once; the next recording asks for it again, half the time.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
}


@contextmanager
def cluster(address: str) -> Iterator[Engine]:
    """Connect to a cluster, or start one on this machine, and leave or end it afterwards."""
    check_cluster("cluster", address)
    import dask.config
    import distributed

    with ExitStack() as stack:
        stack.enter_context(_silenced())
        stack.enter_context(dask.config.set(SETTINGS))
        count = local_count(address)
        if count is not None:
            LOG.info(f"cluster  starting {counted(count, 'worker')} on this machine")
            target = stack.enter_context(_local_cluster(distributed, count, address))
        else:
            target = scheduler_address(address)
        client = stack.enter_context(_client(distributed, target, address))
        yield Engine(client, address)


def _local_cluster(distributed: Any, count: int, address: str) -> Any:
    """Processes on this machine, which nobody reaches from another one."""
    try:
        return distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            host="127.0.0.1",
            memory_limit=None,
            silence_logs=logging.CRITICAL,
            preload=[__name__],
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0", "dashboard": False},
        )
    except (RuntimeError, OSError) as error:  # Dask gives up where one of them ends early
        reason = (str(error) or type(error).__name__).splitlines()[-1].rstrip(".")
        raise InputError(
            f"cluster {address}: the workers could not be started ({reason}). "
            "Was one killed, or is the memory or the number of processes exhausted? Try the same "
            "command again, or fewer workers."
        ) from error


def dask_setup(worker: object) -> None:
    """Leave Ctrl-C, which a terminal sends to all processes, to the command: Dask calls this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _client(distributed: Any, target: Any, address: str) -> Iterator[Any]:
    if str(target).startswith("tls://"):
        _require_certificate(distributed, address)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other versions, which `_run` judges
            client = distributed.Client(target, timeout=REACH_S, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise InputError(
            f"cluster {address}: no scheduler answers at {target} within {REACH_S:.0f} s "
            f"({str(error).splitlines()[0]}). Does it run, and do host, port and, with tls://, "
            "certificates fit?"
        ) from error
    try:
        yield client
    finally:
        client.close(timeout=REACH_S)


def _require_certificate(distributed: Any, address: str) -> None:
    """Raise `InputError` where Dask has no certificate for `tls://`."""
    reason = "none is named"
    try:
        if distributed.Security().get_connection_args("client").get("ssl_context") is not None:
            return
    except (OSError, ValueError) as error:
        reason = str(error)
    raise InputError(
        f"cluster {address}: tls:// needs a certificate for this command ({reason}). Name it by "
        "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__CERT and …__CLIENT__KEY."
    )


@contextmanager
def _silenced() -> Iterator[None]:
    """Keep Dask's own log off the screen inside: what a user must know is said here."""
    loggers = [logging.getLogger("distributed"), logging.getLogger("tornado")]
    loggers += [
        logging.getLogger(name)
        for name in logging.root.manager.loggerDict
        if name.startswith(("distributed.", "tornado."))
    ]
    before = [(logger, logger.level) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in before:
            logger.setLevel(level)
