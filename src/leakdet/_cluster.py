"""Connects to a cluster, of this machine or of many, to do work there through Dask.

With `_cluster_engine`, this is all that knows Dask.
"""

import logging
import signal
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from leakdet._cluster_address import check_cluster, local_count, scheduler_address
from leakdet._cluster_engine import Engine
from leakdet._messages import LOG
from leakdet.errors import InputError, counted

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
    """Connect to a cluster, or start one on this machine, and leave or end it afterwards.

    Raises:
        SettingsError, InputError: as `check_cluster`; or the scheduler does not answer.
    """
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
