"""What to change where a training does not fit into memory."""

from collections.abc import Iterator
from contextlib import contextmanager

from leakdet._memory_errors import memory_sentence
from leakdet.config import DataConfig
from leakdet.errors import LeakdetError


@contextmanager
def full_memory_explained(data: DataConfig, residency: str, on_gpu: bool) -> Iterator[None]:
    """Turn an error of a full memory into `LeakdetError` with the remedy; other errors pass."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        sentence = memory_sentence(error)
        if sentence is None:
            raise
        raise LeakdetError(
            f"Training ran {sentence}, with batches of {data.batch_size}. "
            f"{remedy(data, residency, on_gpu)}"
        ) from error


def remedy(data: DataConfig, residency: str, on_gpu: bool) -> str:
    """What makes room, for these settings and the place where the windows are."""
    ways = [f"data.batch_size={max(1, data.batch_size // 2)}"]
    if on_gpu and residency == "device":
        ways.append("data.residency=ram, which keeps the windows off the GPU")
    if not on_gpu and residency == "ram":
        ways.append("data.residency=stream, which reads the windows batch by batch")
    if not on_gpu and residency == "stream" and data.workers:
        ways.append("fewer data.workers")
    ways.append("a smaller network")
    others = " nvidia-smi names other programs on the GPU." if on_gpu else ""
    return f"Try {', '.join(ways[:-1])}, or {ways[-1]}.{others}"
