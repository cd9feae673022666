"""Exit codes of every command, and the guard that turns errors of the user into one line."""

import errno
import os
import sys
from collections.abc import Callable

from leakdet._memory_errors import memory_sentence
from leakdet._messages import logs_json, messages_on_screen, tell
from leakdet._signals import STOPPING, Stopped, signal_name, signals_raise
from leakdet._streams import prepare_streams
from leakdet.errors import LeakdetError

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


def guarded(
    work: Callable[[], int],
    quiet: bool = False,
    all_to_stderr: bool = False,
    as_json: bool = False,
) -> int:
    """Run a verb, its messages printed; errors that a user can cause become a line on stderr.

    `quiet`, `all_to_stderr` and `as_json` as for `messages_on_screen`; as JSON, a last line has the
    exit code.
    """
    prepare_streams()
    with messages_on_screen(quiet, all_to_stderr, as_json) as outermost:
        code = _ending(work)
        if outermost and logs_json():
            meaning = CODES.get(code, f"ended with {code}")
            level = {DONE: "info", PARTLY: "warning"}.get(code, "error")
            tell(meaning, level, "end", exit_code=code)
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
        tell("interrupted", "error", "stopped")
        return INTERRUPTED
    except Stopped as stop:
        tell(f"stopped by {signal_name(stop.exit_code)}", "error", "stopped")
        return stop.exit_code


def _tell_error(sentence: str) -> None:
    tell(sentence if logs_json() else f"error: {sentence}", "error", "error")


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
    reason = error.strerror or str(error).splitlines()[0]
    place = f"{error.filename}: " if error.filename is not None else ""
    number = error.errno
    if number is None and f"errno = {errno.ENOSPC}," in str(error):
        number, reason = errno.ENOSPC, os.strerror(errno.ENOSPC)
    remedy = REMEDIES.get(number or 0)
    return f"{place}{reason}." + (f" {remedy}" if remedy else "")
