import os
import signal
import subprocess
import sys

import psutil
import pytest

from leakdet import _processes
from leakdet._processes import (
    PARENT,
    check_count,
    is_child,
    named_to_children,
    parent_decision,
    share_decision,
)
from leakdet.errors import SettingsError

NAME = "LEAKDET_TEST_DECISION"


@pytest.mark.parametrize(("rank", "child"), [(None, False), ("", False), ("0", False), ("1", True)])
def test_only_the_first_process_of_a_machine_is_no_child(
    monkeypatch: pytest.MonkeyPatch, rank: str | None, child: bool
):
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", rank)
    assert is_child() is child


def test_a_child_inherits_what_the_first_process_shared(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(NAME, "of an earlier run")
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert parent_decision(NAME) is None
    assert share_decision(NAME, "stream") == "stream"
    assert os.environ[NAME] == "stream"
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert parent_decision(NAME) == "stream"
    monkeypatch.delenv(NAME)
    assert parent_decision(NAME) is None


CHILD = """
import time
from leakdet._processes import follow_parent
follow_parent()
print("follows", flush=True)
time.sleep(600)
"""
FIRST = """
import subprocess, sys
from leakdet._processes import named_to_children
with named_to_children():
    child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
print(child.stdout.readline().decode().strip(), child.pid, flush=True)
child.wait()
"""


def test_a_child_stops_when_its_parent_was_killed():
    with subprocess.Popen(
        [sys.executable, "-c", FIRST, CHILD],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        assert first.stdout is not None
        word, pid = first.stdout.readline().split()
        child = psutil.Process(int(pid))
        assert word == "follows"
        assert child.is_running()
        first.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs([child], timeout=60)
    assert alive == []


def test_a_process_is_named_to_children_that_start_inside(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(PARENT, raising=False)
    with named_to_children():
        assert os.environ[PARENT] == str(os.getpid())
    assert PARENT not in os.environ


def test_numbers_of_processes_are_bounded_by_the_cores(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_processes.os, "cpu_count", lambda: 2)
    for number in (0, 2, 8):
        check_count("data.workers", number)
    check_count("tune.workers", 4, per_core=1, always=4)
    for number in (-1, 9):
        with pytest.raises(SettingsError, match=rf"^data\.workers={number}: .* at most 8 on the 2"):
            check_count("data.workers", number)
