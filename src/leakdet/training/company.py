"""Several processes train together: one decides for all of a machine, and where one dies, the others end and say so."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lightning.pytorch as pl

from leakdet.errors import LeakdetError

LOST = (
    "connection closed by peer",
    "connection reset by peer",
    "broken pipe",
    "remote process exited",
)


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


@contextmanager
def together(trainer: "pl.Trainer", checkpoint: Path) -> Iterator[None]:
    """Turns a lost connection to another process of the run into `LeakdetError`; other errors pass."""
    try:
        yield
    except RuntimeError as error:
        if trainer.world_size == 1 or not any(text in str(error).lower() for text in LOST):
            raise
        way_on = (
            f" To go on: the same command with resume={checkpoint.parent.parent}"
            if checkpoint.exists()
            else ""
        )
        raise LeakdetError(
            f"process {trainer.global_rank} of {trainer.world_size} lost another one, which died (killed, or out of memory?); "
            f"its own message, if it had one, stands above.{way_on}"
        ) from error
