"""Processes of one run on one machine: the first decides, and its children inherit the decision."""

import os


def is_child() -> bool:
    """True if this process was started by the first process of the run on this machine."""
    return int(os.environ.get("LOCAL_RANK") or 0) > 0


def parent_decision(name: str) -> str | None:
    """The value that the parent shared under `name`; None in the first process."""
    return os.environ.get(name) if is_child() else None


def share_decision(name: str, value: str) -> str:
    """Make `value` known under `name` to processes started from now on, and return it."""
    os.environ[name] = value
    return value
