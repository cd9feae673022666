import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from tests.conftest import says

import leakdet
from leakdet.core import parallel
from leakdet.core.errors import InputError, SettingsError
from leakdet.core.parallel import (
    Engine,
    KillsWorkersError,
    check_cluster,
    cluster,
    in_order,
    local_count,
    scheduler_address,
)


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


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("local:0", "cluster=local:0: .*1 process"),
        ("local:9999", "cluster=local:N, N=9999: .*at most"),
        ("local", "cluster=local: .*local:N"),
        ("http://a:1", "allowed are local:N"),
        ("tcp://a", "allowed are local:N"),
        ("tls://:b", "allowed are local:N"),
        ("none.json", "none.json: .*no such file.*dask scheduler"),
    ],
)
def test_an_address_is_checked_early(address: str, message: str):
    with pytest.raises((SettingsError, InputError), match=message):
        check_cluster("cluster", address)


def test_addresses_of_this_machine_and_of_a_scheduler(tmp_path: Path):
    file = tmp_path / "s.json"
    file.write_text('{"address": "tcp://10.0.0.1:8786", "workers": {}}')
    check_cluster("cluster", "local:1")
    check_cluster("cluster", str(file))
    assert (local_count("local:3"), local_count(str(file))) == (3, None)
    assert scheduler_address(str(file)) == "tcp://10.0.0.1:8786"
    assert scheduler_address("tls://a:1") == "tls://a:1"


@pytest.mark.parametrize("text", ["", '{"address": ', "{}", "[]"])
def test_a_file_of_no_scheduler_is_refused(tmp_path: Path, text: str):
    file = tmp_path / "s.json"
    file.write_text(text)
    with pytest.raises(InputError, match=r"s\.json: .*scheduler"):
        scheduler_address(str(file))


def test_a_lacking_package_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parallel, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"--cluster.*pip install .*\[cluster\]"):
        check_cluster("--cluster", "local:1")


pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with cluster("local:2") as engine:
        yield engine


def killing_once(folder: Path) -> Callable[[int], int]:
    """Work that ends its process at item 3, the first time; pickled by value, as it is nested."""
    seen = str(folder / "seen")

    def work(item: int) -> int:
        if item == 3 and not os.path.exists(seen):  # noqa: PTH110
            os.close(os.open(seen, os.O_CREAT))
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item

    return work


def test_every_item_comes_once_whatever_worker_is_lost(
    engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING):
        results = list(engine.unordered(killing_once(tmp_path), range(40)))
    assert sorted(results) == [(item, item * item) for item in range(40)]
    assert (tmp_path / "seen").exists()


def test_few_items_of_an_endless_list_are_in_flight(engine: Engine):
    taken = itertools.count()
    results = engine.unordered(lambda item: -item, (next(taken) for _ in itertools.repeat(None)))
    got = [next(results) for _ in range(50)]
    results.close()
    assert all(result == -item for item, result in got)
    assert next(taken) <= 50 + 2 * 4


@pytest.mark.parametrize("kind", [InputError, ValueError])
def test_an_error_in_the_work_is_raised_as_itself(engine: Engine, kind: type[Exception]):
    def work(item: int) -> None:
        raise kind(f"item {item} cannot be read")

    with pytest.raises(kind, match=r"^item \d cannot be read$"):
        list(engine.unordered(work, range(9)))
    assert list(engine.unordered(lambda item: item, [5])) == [(5, 5)]


def test_a_worker_of_another_version_is_named(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    here = leakdet.__version__
    monkeypatch.setattr(leakdet, "__version__", "9.9")
    with pytest.raises(SettingsError, match=rf"has leakdet {here} .*this command leakdet 9\.9 on"):
        list(engine.unordered(lambda item: item, [1]))


def test_an_item_that_kills_its_worker_is_named_and_no_other(monkeypatch: pytest.MonkeyPatch):
    def work(item: int) -> int:
        if item == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    monkeypatch.setitem(parallel.SETTINGS, "distributed.scheduler.allowed-failures", 0)
    with cluster("local:1") as engine:
        results = engine.unordered(work, range(4))
        with pytest.raises(KillsWorkersError, match=r"^1: killed its worker 1 time, with"):
            list(results)
        tried: list[int] = []
        results = engine.unordered(work, range(4), suspected=lambda item: tried.append(item) or -1)
        assert {item: result for item, result in results if result != -1}.keys() <= {0, 2, 3}
        assert 1 in tried
        assert engine.run_isolated(work, 2) == 2


class Client:
    """Stands for Dask's: the workers of one look after the other."""

    def __init__(self, *looks: dict[str, int] | Exception) -> None:
        self.looks = iter(looks)

    def nthreads(self) -> dict[str, int]:
        match next(self.looks):
            case Exception() as error:
                raise error
            case threads:
                return threads


def told(caplog: pytest.LogCaptureFixture, address: str, *looks: Any) -> list[str]:
    engine = Engine(Client(*looks), address)
    with caplog.at_level(logging.INFO, "leakdet"):
        for _ in looks:
            engine._looked_at = -parallel.POLL_EVERY_S
            engine.poll_workers()
    return [record.getMessage() for record in caplog.records]


def test_lost_workers_and_none_are_said_once(caplog: pytest.LogCaptureFixture):
    first, second = {"tcp://a:1": 2}, {"tcp://b:1": 1}
    assert says(
        told(caplog, "s.json", {}, {}, first | second, second),
        r"s\.json: no worker .*dask worker --scheduler-file s\.json --nthreads 1$",
        r"s\.json: 2 workers, 3 threads$",
        "^1 worker .*lost; 1 left",
    )


def test_a_lost_scheduler_is_said(caplog: pytest.LogCaptureFixture):
    with pytest.raises(InputError, match=r"tcp://a:1: .*lost"):
        told(caplog, "tcp://a:1", {"tcp://b:1": 1}, OSError("closed"))


def test_workers_of_this_machine_are_not_waited_for_without_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    there: dict[str, int] = {"tcp://a:1": 1}
    monkeypatch.setattr(parallel, "GIVE_UP_S", 0.0)
    assert len(told(caplog, "s.json", there, {}, {})) == 3  # others start workers when they like
    with pytest.raises(InputError, match="local:1: all workers ended"):
        told(caplog, "local:1", there, {})


dask = pytest.importorskip("dask")
pytest.importorskip("distributed")


def test_dask_listens_on_this_machine_alone():
    with cluster("local:1"):
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        listening = [
            connection.laddr.ip
            for process in processes
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
    assert listening
    assert set(listening) == {"127.0.0.1"}


SCRIPT = """
import itertools, os, time
from leakdet.core.parallel import cluster
if __name__ == "__main__":
    with cluster("local:2") as engine:
        workers = {pid for _, pid in engine.unordered(lambda _: time.sleep(0.1) or os.getpid(), range(9))}
        print(*workers, flush=True)
        list(engine.unordered(time.sleep, itertools.repeat(0.1)))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_the_command(tmp_path: Path, number: int):
    (tmp_path / "command.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "command.py")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        workers = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        if number == signal.SIGINT:  # as a terminal sends it
            os.killpg(process.pid, number)
        else:
            process.kill()
        errors = process.stderr.read()
    assert workers
    assert psutil.wait_procs(workers, timeout=60)[1] == []
    assert errors.count("Traceback") == (number == signal.SIGINT)  # of the script itself


def test_a_scheduler_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parallel, "REACH_S", 0.5)
    with (
        pytest.raises(InputError, match=r"no scheduler .*tcp://127\.0\.0\.1:1 "),
        cluster("tcp://127.0.0.1:1"),
    ):
        pass


def test_tls_without_a_certificate_is_said(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InputError, match=r"needs a certificate .*none is named.*TLS__CA_FILE"):
        cluster("tls://127.0.0.1:1").__enter__()
    with (
        dask.config.set({"distributed.comm.tls.ca-file": "/none.pem"}),
        pytest.raises(InputError, match="certificate for this command"),
    ):
        cluster("tls://127.0.0.1:1").__enter__()


def test_a_worker_that_ends_while_it_starts_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    deadly = tmp_path / "deadly.py"
    deadly.write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setattr(parallel, "__name__", str(deadly))  # what a worker loads as it starts
    with pytest.raises(InputError, match=r"local:1: .*could not be started .*fewer"):
        cluster("local:1").__enter__()
