"""Where the windows are during training: on the accelerator, in the host's memory, or in the files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch

from leakdet._processes import parent_decision, share_decision
from leakdet.config import TrainerFlags

DECIDED = "LEAKDET_RESIDENCY"  # environment variable by which a run tells its child processes
# of the free memory that data may take; the rest is the network's, its gradients' and other people's
SHARE = 0.5


@dataclass(frozen=True)
class Residency:
    """The choice, and why, in one line for the reader."""

    kind: str  # device | ram | stream
    reason: str


def choose_residency(wanted: str, data_bytes: int, trainer: dict[str, Any]) -> Residency:
    """`wanted`, or for `auto` the fastest that `data_bytes` fit: they may take half of what is free.

    One process decides for all of a machine: another one, that measures later, might find less memory free.
    """
    size = f"{data_bytes / 1e9:.2f} GB of windows"
    if wanted != "auto":
        return Residency(wanted, f"{size}, as data.residency={wanted} says")
    if kind := parent_decision(DECIDED):
        return Residency(kind, f"{size}, as the first process of this machine chose")
    measured = _measured(size, data_bytes, trainer)
    share_decision(DECIDED, measured.kind)
    return measured


def _measured(size: str, data_bytes: int, trainer: dict[str, Any]) -> Residency:
    accelerator = accelerator_free_bytes(trainer)
    if accelerator is not None and data_bytes <= SHARE * accelerator:
        return Residency(
            "device",
            f"{size} fit in half of the {accelerator / 1e9:.1f} GB free on the accelerator",
        )
    host = host_free_bytes()
    if data_bytes <= SHARE * host:
        return Residency("ram", f"{size} fit in half of the {host / 1e9:.1f} GB of free memory")
    return Residency(
        "stream", f"{size} do not fit in half of the {host / 1e9:.1f} GB of free memory"
    )


def uses_cuda(trainer: dict[str, Any]) -> bool:
    accelerator = TrainerFlags.of(trainer).accelerator
    return accelerator in ("gpu", "cuda", "auto") and torch.cuda.is_available()


def accelerator_free_bytes(trainer: dict[str, Any]) -> int | None:
    """Free memory of the fullest CUDA device that training will use; None where it will use none."""
    if not uses_cuda(trainer):
        return None
    there, wanted = range(torch.cuda.device_count()), TrainerFlags.of(trainer).devices
    if isinstance(wanted, int) and wanted > 0:
        there = there[:wanted]
    used = wanted if isinstance(wanted, list) else there
    return min(torch.cuda.mem_get_info(int(number))[0] for number in used)


def host_free_bytes(groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Memory that can still be had: the machine's, or what a container's limit leaves of it."""
    free = int(psutil.virtual_memory().available)
    for limit, used, statistics, cached in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        (
            "memory/memory.limit_in_bytes",
            "memory/memory.usage_in_bytes",
            "memory/memory.stat",
            "total_inactive_file",
        ),
    ):
        try:
            left = int((groups / limit).read_text()) - int((groups / used).read_text())
        except (OSError, ValueError):  # no such control group, or its limit is the word "max"
            continue
        free = min(free, max(0, left + _reclaimable(groups / statistics, cached)))
    return free


def _reclaimable(statistics: Path, name: str) -> int:
    """Bytes of files that were read lately: they count as used, but make room for whoever asks."""
    try:
        lines = dict(line.split() for line in statistics.read_text().splitlines())
        return int(lines.get(name, 0))
    except (OSError, ValueError):
        return 0
