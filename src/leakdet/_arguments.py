"""What the doors with plain arguments share: how they end, and where they compute."""

import argparse
import os
import sys
from collections.abc import Callable

from leakdet.errors import InputError, LeakdetError

DONE, PARTLY, WRONG, INTERRUPTED = 0, 1, 2, 130
EXIT_CODES = (
    "exit codes: 0 all done; 1 some files could not be scored; 2 wrong usage, settings or input; "
    "130 interrupted (Ctrl-C)"
)


def run(work: Callable[[], int]) -> int:
    """The exit code of a door; what a user can cause ends in a sentence on stderr."""
    try:
        return work()
    except LeakdetError as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG
    except BrokenPipeError:  # whoever reads our output has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", default="auto", help="auto, cpu, cuda, cuda:N or mps (default: auto)"
    )


def chosen_device(name: str) -> str:
    """`auto` takes a GPU where there is one. Raises `InputError` for a device that this machine does not have."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"--device {name}: not available here ({str(error).splitlines()[0]}). Use auto or cpu."
        ) from error
    return name
