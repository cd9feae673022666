import json
import os
import signal
import subprocess
import sys
import threading
from typing import NoReturn

import psutil
import pytest
from tests.conftest import says

from leakdet.core import process
from leakdet.core.errors import InputError, SettingsError
from leakdet.core.messages import LOG, on_screen
from leakdet.core.process import (
    DONE,
    INTERRUPTED,
    PARENT,
    PARTLY,
    STOPPING,
    WRONG,
    Stopped,
    check_count,
    guarded,
    is_child,
    named_to_children,
    parent_decision,
    share_decision,
    signal_name,
    signals_raise,
    system_sentence,
)

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
from leakdet.core.process import follow_parent
follow_parent()
print("follows", flush=True)
time.sleep(600)
"""
FIRST = """
import subprocess, sys
from leakdet.core.process import named_to_children
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
    monkeypatch.setattr(process.os, "cpu_count", lambda: 2)
    for number in (0, 2, 8):
        check_count("data.workers", number)
    check_count("tune.workers", 4, per_core=1, always=4)
    for number in (-1, 9):
        with pytest.raises(SettingsError, match=rf"^data\.workers={number}: .* at most 8 on the 2"):
            check_count("data.workers", number)


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_raises_inside_and_does_what_it_did_outside(number: int) -> None:
    given = signal.signal(number, signal.SIG_DFL)  # also where the tests run under nohup
    with pytest.raises(Stopped) as stop, signals_raise():
        signal.raise_signal(number)
    assert (stop.value.code, stop.value.number) == (128 + number, number)
    assert signal_name(128 + number) == signal.Signals(number).name
    assert signal.signal(number, given) is signal.SIG_DFL


def test_a_second_signal_does_not_disturb_the_end_of_the_first() -> None:
    finished = []

    def work() -> None:
        with signals_raise():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                os.kill(os.getpid(), signal.SIGHUP)
                finished.append(True)

    with pytest.raises(Stopped) as stop:
        work()
    assert (stop.value.number, finished) == (signal.SIGTERM, [True])


def test_what_the_caller_ignores_stays_ignored() -> None:
    code = (
        "import os, signal\n"
        "from leakdet.core.process import signals_raise\n"
        "with signals_raise():\n"
        "    os.kill(os.getpid(), signal.SIGHUP); print('goes on')"
    )
    answer = subprocess.run(
        ["nohup", sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == "goes on\n"


def test_outside_the_main_thread_no_handler_is_set() -> None:
    handlers = []

    def work() -> None:
        with signals_raise():
            handlers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGTERM)]


def raising(error: BaseException) -> NoReturn:
    raise error


def test_the_code_of_the_work_is_the_code_of_the_command() -> None:
    assert [guarded(lambda code=code: code) for code in (DONE, PARTLY)] == [DONE, PARTLY]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("a.wav: empty"), WRONG, r"^error: a\.wav: empty$"),
        (SettingsError("seed=-1"), WRONG, "^error: seed=-1$"),
        (KeyboardInterrupt(), INTERRUPTED, "^interrupted$"),
        (Stopped(signal.SIGHUP), 129, "^stopped by SIGHUP$"),
        (
            OSError(28, "No space left on device", "a/b.csv"),
            WRONG,
            r"^error: a/b\.csv: No space left on device\. Free some space",
        ),
        (
            PermissionError(13, "Permission denied", "a"),
            WRONG,
            r"^error: a: Permission denied\. Choose a place",
        ),
        (
            OSError("Can't write (file write failed: errno = 28, error message = 'No space')"),
            WRONG,
            r"^error: No space left on device\. Free some space",
        ),
        (OSError("odd"), WRONG, r"^error: odd\.$"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: no"),
            WRONG,
            r"^error: out of memory\. .*data\.residency=stream",
        ),
        (
            MemoryError(),
            WRONG,
            r"^error: out of memory\. .*data\.residency=stream",
        ),
    ],
)
def test_what_a_user_can_cause_is_a_line_and_a_code(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(lambda: raising(error)) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert says(printed.err.splitlines(), message)


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        guarded(lambda: 1 // 0)


def test_messages_are_printed_while_the_work_runs(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        LOG.info("halfway")
        return DONE

    guarded(work)
    LOG.info("afterwards")
    assert capsys.readouterr().out == "halfway\n"
    assert not on_screen()


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    code = (
        "from leakdet.core.process import guarded\n"
        "def work():\n"
        "    for _ in range(100_000): print('row', flush=True)\n"
        "raise SystemExit(guarded(work))"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"row\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == DONE


@pytest.mark.parametrize(
    ("error", "code", "kind", "message"),
    [
        (None, DONE, None, None),
        (InputError("a.wav: cut off."), WRONG, "error", "a.wav: cut off."),
        (OSError(28, "No space left on device"), WRONG, "error", "No space left on device. Free"),
        (MemoryError(), WRONG, "error", "memory"),
        (KeyboardInterrupt(), INTERRUPTED, "stopped", "interrupted"),
        (Stopped(signal.SIGTERM), 143, "stopped", "stopped by SIGTERM"),
    ],
)
def test_as_json_the_reason_and_the_code_are_the_last_lines(
    capsys: pytest.CaptureFixture[str], error, code: int, kind, message
) -> None:
    assert guarded(lambda: PARTLY, "json") == PARTLY
    assert json.loads(capsys.readouterr().err)["level"] == "warning"
    work = (lambda: raising(error)) if error else (lambda: DONE)
    assert guarded(lambda: guarded(work), "json") == code
    captured = capsys.readouterr()
    assert captured.out == ""
    *reasons, end = [json.loads(line) for line in captured.err.splitlines()]
    assert (end["kind"], end["exit_code"]) == ("end", code)
    assert [reason["kind"] for reason in reasons] == ([kind] if kind else [])
    if reasons:
        assert message in reasons[0]["message"]
        assert reasons[0]["level"] == end["level"] == "error"


def test_an_error_of_the_system_without_text_is_named_by_its_kind() -> None:
    assert system_sentence(OSError()) == "OSError."
    assert system_sentence(BrokenPipeError()) == "BrokenPipeError."
