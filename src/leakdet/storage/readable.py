"""The check that a file can be read, and the sentence where it turns out to be damaged."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leakdet.errors import InputError, LeakdetError

COPY_AGAIN = "Copy it again from an undamaged one, or train again."


def require_readable(path: Path, what: str) -> None:
    """Raise `InputError` where `path` is no file or may not be read; `what` names its kind."""
    try:
        with path.open("rb"):
            pass
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such {what}.") from error
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: this {what} cannot be read ({reason}).") from error


@contextmanager
def understood(path: Path, what: str, remedy: str = "") -> Iterator[None]:
    """Raise `InputError` for any error in the block, which reads the file and takes it apart.

    `what` names the kind of file that it should be, `remedy` says what to do.
    """
    try:
        yield
    except LeakdetError:
        raise
    # no text, no CSV, no JSON, no YAML, or one without what was looked for
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines() or [repr(error)]
        reason = reason if isinstance(reason, str) else reason[0]
        if isinstance(error, KeyError):
            reason = f"it lacks {reason}"
        raise InputError(f"{path}: not {what} ({reason}). {remedy}".rstrip()) from error
