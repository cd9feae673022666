"""The process of a command: its exit code, the signals that stop it, its number among others.

Of the processes of a run the first decides, and its children inherit the decision.
"""

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from leakdet.core.errors import LeakdetError, SettingsError, memory_sentence
from leakdet.core.files import launcher_rank
from leakdet.core.messages import logs_json, messages_on_screen, prepare_streams, print_status

PARENT = "LEAKDET_PARENT"  # environment variable: the process that starts others
LOOK_EVERY_S = 0.5
GRACE_S = 30.0  # to leave everything whole


def is_child() -> bool:
    """True if this process was started by the first process of the run on this machine."""
    return launcher_rank("LOCAL_RANK") > 0


def parent_decision(name: str) -> str | None:
    """The value that the parent shared under `name`; None in the first process."""
    return os.environ.get(name) if is_child() else None


def share_decision(name: str, value: str) -> str:
    """Make `value` known under `name` to processes started from now on, and return it."""
    os.environ[name] = value
    return value


@contextmanager
def named_to_children() -> Iterator[None]:
    """Let processes that are started inside know this one, for `follow_parent`."""
    before = os.environ.get(PARENT)
    os.environ[PARENT] = str(os.getpid())
    try:
        yield
    finally:
        os.environ.pop(PARENT)
        if before is not None:
            os.environ[PARENT] = before


def follow_parent(parent: int | None = None) -> None:
    """Stop this process, as by SIGTERM, soon after `parent`, which started it, has ended.

    A process that was killed cannot tell its children. None: the one that named itself to this
    one, if any did. Where the stop does not come about, as in a call that waits for other
    processes, this process ends without it.
    """
    started_by = parent or int(os.environ.get(PARENT, 0))
    if not started_by:
        return

    def watch() -> None:
        while os.getppid() == started_by:
            time.sleep(LOOK_EVERY_S)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_S)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="follow-parent").start()


def check_count(name: str, number: int, per_core: int = 4, always: int = 1) -> None:
    """Check a number of processes or threads against the cores of this machine.

    Hundreds of them would take the machine down before anything else is looked at. `always` are
    allowed on any machine.
    """
    cores = os.cpu_count() or 1
    most = max(always, per_core * cores)
    if not 0 <= number <= most:
        raise SettingsError(
            f"{name}={number}: allowed are at most {most} on the {cores} cores of this machine."
        )


# A terminal that closed, Slurm's notice before its time limit, and kill; Ctrl-C raises already.
STOPPING = (signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM)


class Stopped(SystemExit):
    """A signal asked the command to stop; its code is 128 and the signal's number."""

    def __init__(self, number: int) -> None:
        self.number, self.exit_code = number, 128 + number
        super().__init__(self.exit_code)


def signal_name(code: int) -> str:
    """The signal behind an exit code above 128, as SIGTERM."""
    return signal.Signals(code - 128).name


def is_ignored(number: int) -> bool:
    """True if the caller ignores a signal, as nohup ignores SIGHUP: then it stays ignored."""
    return signal.getsignal(number) is signal.SIG_IGN


@contextmanager
def signals_raise() -> Iterator[None]:
    """Raise `Stopped` inside, once; outside, signals do what they did. Main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in STOPPING if not is_ignored(number)]

    def stop(number: int, frame: FrameType | None) -> None:
        for other in numbers:  # a second one must not disturb what the first one has to finish
            signal.signal(other, lambda *_: None)
        raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


DONE, PARTLY, WRONG, INTERRUPTED = 0, 1, 2, 130
STOPPED = 128  # codes above are of signals
CODES = {
    DONE: "done, whatever the verdicts",
    PARTLY: "some input could not be used (it is named)",
    WRONG: "wrong usage, settings or input, or a system error such as a full disk",
    INTERRUPTED: "interrupted (Ctrl-C)",
    **{STOPPED + number: f"stopped by {number.name}" for number in STOPPING},
}
EXPLAINED = f"exit codes: {'; '.join(f'{code} {meaning}' for code, meaning in CODES.items())}"


def guarded(work: Callable[[], int], log: str = "normal", all_to_stderr: bool = False) -> int:
    """Run a verb, its messages printed; errors that a user can cause become a line on stderr.

    `log` and `all_to_stderr` as for `messages_on_screen`; as JSON, a last line has the exit code.
    """
    prepare_streams()
    with messages_on_screen(log, all_to_stderr) as outermost:
        code = _ending(work)
        if outermost and logs_json():
            meaning = CODES.get(code, f"ended with {code}")
            level = {DONE: "info", PARTLY: "warning"}.get(code, "error")
            print_status(meaning, level, "end", exit_code=code)
        return code


def _ending(work: Callable[[], int]) -> int:
    """The exit code of a work, what ended it early told in a sentence."""
    try:
        with signals_raise():
            return work()
    except LeakdetError as error:
        _tell_error(str(error))
        return WRONG
    except BrokenPipeError:  # the reader closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        _tell_error(system_sentence(error))
        return WRONG
    except (MemoryError, RuntimeError) as error:
        sentence = memory_sentence(error)
        if sentence is None:
            raise
        _tell_error(f"{sentence}. {REMEDIES[errno.ENOMEM]}")
        return WRONG
    except KeyboardInterrupt:
        print_status("interrupted", "error", "stopped")
        return INTERRUPTED
    except Stopped as stop:
        print_status(f"stopped by {signal_name(stop.exit_code)}", "error", "stopped")
        return stop.exit_code


def _tell_error(sentence: str) -> None:
    print_status(sentence if logs_json() else f"error: {sentence}", "error", "error")


REMEDIES = dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "Free some space, or write elsewhere.")
REMEDIES |= dict.fromkeys(
    (errno.EROFS, errno.EACCES, errno.EPERM), "Choose a place that you may read and write."
)
REMEDIES |= dict.fromkeys(
    (errno.EMFILE, errno.ENFILE), "Allow more open files (ulimit -n), or use fewer workers."
)
REMEDIES[errno.ENOMEM] = "Use fewer workers, a smaller batch, or data.residency=stream."
REMEDIES[errno.ENOENT] = "It may have been moved or removed while it was used."


def system_sentence(error: OSError) -> str:
    """A sentence on what the operating system refused, with the remedy, for h5py's errors too."""
    lines = str(error).splitlines()
    reason = error.strerror or (lines[0] if lines else type(error).__name__)
    place = f"{error.filename}: " if error.filename is not None else ""
    number = error.errno
    if number is None and f"errno = {errno.ENOSPC}," in str(error):
        number, reason = errno.ENOSPC, os.strerror(errno.ENOSPC)
    remedy = REMEDIES.get(number or 0)
    return f"{place}{reason}." + (f" {remedy}" if remedy else "")
