"""The check that a file which the user names can be read."""

from pathlib import Path

from leakdet.errors import InputError

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
