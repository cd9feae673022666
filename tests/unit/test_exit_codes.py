"""How a command ends."""

import json
import signal
import subprocess
import sys
from typing import NoReturn

import pytest

from leakdet._exit_codes import DONE, INTERRUPTED, PARTLY, WRONG, guarded
from leakdet._messages import LOG, on_screen
from leakdet._signals import Stopped
from leakdet.errors import InputError, SettingsError


def raising(error: BaseException) -> NoReturn:
    raise error


def test_the_code_of_the_work_is_the_code_of_the_command() -> None:
    assert [guarded(lambda code=code: code) for code in (DONE, PARTLY)] == [DONE, PARTLY]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("a.wav: empty"), WRONG, "error: a.wav: empty\n"),
        (SettingsError("seed=-1"), WRONG, "error: seed=-1\n"),
        (KeyboardInterrupt(), INTERRUPTED, "interrupted\n"),
        (Stopped(signal.SIGHUP), 129, "stopped by SIGHUP\n"),
        (
            OSError(28, "No space left on device", "a/b.csv"),
            WRONG,
            "error: a/b.csv: No space left on device. Free some space, or write elsewhere.\n",
        ),
        (
            PermissionError(13, "Permission denied", "a"),
            WRONG,
            "error: a: Permission denied. Choose a place that you may read and write.\n",
        ),
        (
            OSError("Can't write (file write failed: errno = 28, error message = 'No space')"),
            WRONG,
            "error: No space left on device. Free some space, or write elsewhere.\n",
        ),
        (OSError("odd"), WRONG, "error: odd.\n"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: no"),
            WRONG,
            "error: out of memory. Use fewer workers, a smaller batch, or data.residency=stream.\n",
        ),
        (
            MemoryError(),
            WRONG,
            "error: out of memory. Use fewer workers, a smaller batch, or data.residency=stream.\n",
        ),
    ],
)
def test_what_a_user_can_cause_is_a_line_and_a_code(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(lambda: raising(error)) == code
    assert capsys.readouterr() == ("", message)


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
        "from leakdet._exit_codes import guarded\n"
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
    assert guarded(lambda: PARTLY, as_json=True) == PARTLY
    assert json.loads(capsys.readouterr().err)["level"] == "warning"
    work = (lambda: raising(error)) if error else (lambda: DONE)
    assert guarded(lambda: guarded(work), as_json=True) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    *reasons, end = [json.loads(line) for line in captured.err.splitlines()]
    assert (end["kind"], end["exit_code"]) == ("end", code)
    assert [reason["kind"] for reason in reasons] == ([kind] if kind else [])
    if reasons:
        assert message in reasons[0]["message"]
        assert reasons[0]["level"] == end["level"] == "error"
