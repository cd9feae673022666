import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from leakdet import _cluster
from leakdet._cluster import cluster
from leakdet.errors import InputError

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
from leakdet._cluster import cluster
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
    monkeypatch.setattr(_cluster, "REACH_S", 0.5)
    with (
        pytest.raises(InputError, match=r"no scheduler answers at tcp://127\.0\.0\.1:1 within"),
        cluster("tcp://127.0.0.1:1"),
    ):
        pass


def test_tls_without_a_certificate_is_said(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InputError, match=r"needs a certificate .*none is named.*TLS__CA_FILE"):
        cluster("tls://127.0.0.1:1").__enter__()
    with (
        dask.config.set({"distributed.comm.tls.ca-file": "/none.pem"}),
        pytest.raises(InputError, match="needs a certificate for this command"),
    ):
        cluster("tls://127.0.0.1:1").__enter__()


def test_a_worker_that_ends_while_it_starts_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    deadly = tmp_path / "deadly.py"
    deadly.write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setattr(_cluster, "__name__", str(deadly))  # what a worker loads as it starts
    with pytest.raises(InputError, match=r"local:1: the workers could not be started .*fewer"):
        cluster("local:1").__enter__()
