"""Exit codes of every command, and the guard that turns errors of the user into one line."""

import os
import sys
from collections.abc import Callable

from leakdet._messages import messages_on_screen
from leakdet.errors import LeakdetError

DONE, PARTLY, WRONG, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
EXPLAINED = (
    "exit codes: 0 done; 1 some input could not be used (it is named); "
    "2 wrong usage, settings or input; 130 interrupted (Ctrl-C), 143 terminated"
)


def guarded(work: Callable[[], int]) -> int:
    """Run a verb, its messages printed; errors that a user can cause become a line on stderr."""
    try:
        with messages_on_screen():
            return work()
    except LeakdetError as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG
    except BrokenPipeError:  # the reader closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
