"""DDP helpers: sums over ranks, and a readable error where a peer is lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lightning.pytorch as pl
from torch import Tensor

from leakdet.errors import LeakdetError

LOST = (
    "connection closed by peer",
    "connection reset by peer",
    "broken pipe",
    "remote process exited",
)


def sum_over_ranks(trainer: "pl.Trainer", value: Tensor) -> Tensor:
    """The sum of every rank's `value`, on the CPU."""
    if trainer.world_size == 1:
        return value.cpu()
    on_device = value.to(trainer.strategy.root_device)
    reduced: Tensor = trainer.strategy.reduce(on_device, reduce_op="sum")
    return reduced.cpu()


@contextmanager
def lost_peer_explained(trainer: "pl.Trainer", checkpoint: Path) -> Iterator[None]:
    """Turn a lost connection to another rank into `LeakdetError`; other errors pass."""
    try:
        yield
    except RuntimeError as error:
        if trainer.world_size == 1 or not any(text in str(error).lower() for text in LOST):
            raise
        resume = f" To continue: the same command with resume={checkpoint.parent.parent}"
        raise LeakdetError(
            f"process {trainer.global_rank} of {trainer.world_size} lost another one, which died "
            "(killed, or out of memory?); its own message, if it had one, stands above."
            + (resume if checkpoint.exists() else "")
        ) from error
