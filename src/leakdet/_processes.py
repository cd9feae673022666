"""The processes of one run on one machine: which of them decides, and how it tells the others."""

import os


def is_child() -> bool:
    """Whether another process of this machine's part of the run comes before this one."""
    return int(os.environ.get("LOCAL_RANK") or 0) > 0


def decided(name: str) -> str | None:
    """What the process that started this one decided under `name`; None where this one must decide."""
    return os.environ.get(name) if is_child() else None


def decide(name: str, value: str) -> str:
    """Decide for the processes that this one is going to start as well."""
    os.environ[name] = value
    return value
