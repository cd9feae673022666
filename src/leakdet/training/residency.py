"""Where the windows are during training: on the accelerator, in the host's memory, or in the files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch

SHARE = (
    0.5  # of the free memory that data may take; the rest is the network's, its gradients' and other people's
)


@dataclass(frozen=True)
class Residency:
    """The choice, and why, in one line for the reader."""

    kind: str  # device | ram | stream
    reason: str


def choose_residency(wanted: str, data_bytes: int, trainer: dict[str, Any]) -> Residency:
    """`wanted`, or for `auto` the fastest that `data_bytes` fit: they may take half of what is free."""
    size = f"{data_bytes / 1e9:.2f} GB of windows"
    if wanted != "auto":
        return Residency(wanted, f"{size}, as data.residency={wanted} says")
    accelerator = accelerator_free_bytes(trainer)
    if accelerator is not None and data_bytes <= SHARE * accelerator:
        return Residency(
            "device", f"{size} fit in half of the {accelerator / 1e9:.1f} GB free on the accelerator"
        )
    host = host_free_bytes()
    if data_bytes <= SHARE * host:
        return Residency("ram", f"{size} fit in half of the {host / 1e9:.1f} GB of free memory")
    return Residency("stream", f"{size} do not fit in half of the {host / 1e9:.1f} GB of free memory")


def accelerator_free_bytes(trainer: dict[str, Any]) -> int | None:
    """Free memory of the CUDA device that training will use; None where it will use none."""
    if trainer.get("accelerator", "auto") not in ("gpu", "cuda", "auto") or not torch.cuda.is_available():
        return None
    return min(torch.cuda.mem_get_info(number)[0] for number in range(torch.cuda.device_count()))


def host_free_bytes(groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Memory that can still be had: the machine's, or what a container's limit leaves of it."""
    free = int(psutil.virtual_memory().available)
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            left = int((groups / limit).read_text()) - int((groups / used).read_text())
        except (OSError, ValueError):  # no such control group, or its limit is the word "max"
            continue
        free = min(free, max(0, left))
    return free
