"""Several processes train together: one decides for all of a machine, and where one dies, the others end and say so."""

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
