"""Readings of a CUDA device: who takes its memory, and whether its use can be read."""

from typing import NamedTuple

import torch

from leakdet.training import log_names


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
        remedy = "" if torch.version.hip else "; pip install 'leakdet[gpu]'"
        return f"not measured: {str(error).rstrip('.')}{remedy}"
    except Exception as error:  # pynvml's have no other base class
        return f"not measured: the driver does not tell it ({error})"
    return None
