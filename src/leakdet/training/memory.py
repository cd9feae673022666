"""Memory of a training: kept between steps, read of a GPU, and what to change where it is full."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from leakdet.config import DataConfig
from leakdet.core.errors import LeakdetError, install_command, memory_sentence
from leakdet.training import log_names

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as in glibc's malloc.h
LARGEST_BLOCKS = (1 << 30, 1 << 25)  # bytes; glibc before 2.35 accepts only the second
KEPT_BYTES = (1 << 31) - 1  # freed memory beyond this goes back to the system


def keep_freed_memory() -> bool:
    """Keep up to 2 GiB of freed memory; True where that works, in Linux processes on glibc.

    By default, glibc returns large tensors to the system when a step frees them; the next step gets
    them back page by page, zeroed, which takes a tenth to a third of a step on a CPU
    (docs/benchmarks.md). Settings of malloc in the environment take precedence. This holds for the
    whole process and cannot be undone.
    """
    tuned = any(name.startswith("MALLOC_") for name in os.environ) or "GLIBC_TUNABLES" in os.environ
    if sys.platform != "linux" or tuned:
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    return bool(
        mallopt
        and any(mallopt(M_MMAP_THRESHOLD, size) for size in LARGEST_BLOCKS)
        and mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    )


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


class GpuMemory(NamedTuple):
    """Memory of a device in bytes, as torch's allocator and the driver count it."""

    total: int
    free: int  # for any program
    allocated: int  # in tensors now
    reserved: int  # taken from the driver by this process, for tensors now and to come
    peak_allocated: int
    peak_reserved: int

    @property
    def others(self) -> int:
        """What other programs take, and the driver for this one."""
        return max(0, self.total - self.free - self.reserved)

    @property
    def share(self) -> float:
        """Share of the device that was taken when it was fullest, by all programs."""
        return min(1.0, (self.others + self.peak_reserved) / self.total)

    def numbers(self) -> dict[str, float]:
        """What is logged of it."""
        return {
            log_names.GPU_ALLOCATED: self.allocated / 1e9,
            log_names.GPU_RESERVED: self.reserved / 1e9,
            log_names.GPU_PEAK: self.peak_allocated / 1e9,
            log_names.GPU_MEMORY: self.share,
        }


def read_gpu_memory(device: torch.device) -> GpuMemory | None:
    """The memory of a CUDA device; None of any other."""
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    counts = torch.cuda.memory_stats(device)
    kinds = ("allocated_bytes.all.{}", "reserved_bytes.all.{}")
    now, most = (
        [counts.get(kind.format(when), 0) for kind in kinds] for when in ("current", "peak")
    )
    return GpuMemory(total, free, *now, *most)


def why_no_gpu_use(device: torch.device) -> str | None:
    """What keeps the use of a CUDA device from being read, with the remedy; else None."""
    if device.type != "cuda":
        return None
    try:
        torch.cuda.utilization(device)
    except ModuleNotFoundError as error:  # the library that asks the driver
        remedy = "" if torch.version.hip else f"; {install_command('gpu')}"
        return f"not measured: {str(error).rstrip('.')}{remedy}"
    except Exception as error:  # pynvml's have no other base class
        return f"not measured: the driver does not tell it ({error})"
    return None
