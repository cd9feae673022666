"""Where a split is kept, and how processes share it."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch

from leakdet.config import DataConfig, TrainerFlags
from leakdet.core.errors import SettingsError
from leakdet.core.process import parent_decision, share_decision
from leakdet.loading.samples import SplitSamples

PLACE = Path("/dev/shm")
AHEAD = 2  # batches that each worker has ready, as DataLoader asks for
IN_HAND = 2  # the batch that trains, and the next one
PAGE_BYTES = 4096  # each array takes whole pages
OTHER_BYTES = 1 << 18  # locks of the queues, which take a page each


def require_shared_memory(samples: SplitSamples, data: DataConfig) -> None:
    """Check that the batches of `data.workers` fit into /dev/shm; without workers, nothing.

    All processes of a training on this machine share it, as they share `data.batch_size`. Where it
    is too small the system kills a worker, or the training waits for ever.
    """
    if not data.workers or not sys.platform.startswith("linux"):
        return
    remedy = "Give data.workers=0, which needs none"
    setting = f"data.workers={data.workers}: batches are handed over in {PLACE}"
    if not (PLACE.is_dir() and os.access(PLACE, os.W_OK)):
        raise SettingsError(f"{setting}, which is missing or may not be written. {remedy}.")
    batch = samples.batch_bytes(min(data.batch_size, len(samples)))
    need = (AHEAD * data.workers + IN_HAND) * (batch + 4 * PAGE_BYTES) + OTHER_BYTES
    free = shutil.disk_usage(PLACE).free
    if need > free:
        raise SettingsError(
            f"{setting}, which takes up to {need / 1e6:.1f} MB and has {free / 1e6:.1f} MB free. "
            f"{remedy}; a smaller data.batch_size; or a larger {PLACE} (of a container: "
            "--shm-size)."
        )


DECIDED = "LEAKDET_RESIDENCY"  # environment variable by which a run tells its child processes
SHARE = 0.5  # of free memory for the data; the rest is for weights, gradients and other processes
PLACES = {
    "device": "kept on the accelerator",
    "ram": "kept in memory",
    "stream": "streamed from the files",
}
CGROUPS = Path("/sys/fs/cgroup")
# limit, usage, statistics and the entry there that counts cached files, of cgroups v2 and v1
CGROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
)


@dataclass(frozen=True)
class Residency:
    """The choice, and a line about it for the user."""

    kind: str  # device | ram | stream
    reason: str


def choose_residency(wanted: str, data_bytes: int, trainer: Mapping[str, Any]) -> Residency:
    """`wanted`, or under `auto` the fastest place of whose free memory the data take at most half.

    One process decides for its whole machine: another one would find less memory free later.
    """
    kind, why = wanted, f"data.residency={wanted}"
    if wanted == "auto" and (decision := parent_decision(DECIDED)):
        kind, why = decision, "as the first process of this machine decided"
    elif wanted == "auto":
        kind, why = _measured(data_bytes, trainer)
        share_decision(DECIDED, kind)
    return Residency(kind, f"{data_bytes / 1e9:.2f} GB, {PLACES[kind]} ({why})")


def _measured(data_bytes: int, trainer: Mapping[str, Any]) -> tuple[str, str]:
    accelerator = accelerator_free_bytes(trainer)
    if accelerator is not None and data_bytes <= SHARE * accelerator:
        return "device", f"{accelerator / 1e9:.1f} GB free there"
    host = host_free_bytes()
    if data_bytes <= SHARE * host:
        return "ram", f"{host / 1e9:.1f} GB free"
    return "stream", f"more than half of the {host / 1e9:.1f} GB of free memory"


def uses_cuda(trainer: Mapping[str, Any]) -> bool:
    """True if a training under these settings of `trainer` runs on CUDA devices."""
    accelerator = TrainerFlags.of(trainer).accelerator
    return accelerator in ("gpu", "cuda", "auto") and torch.cuda.is_available()


def accelerator_free_bytes(trainer: Mapping[str, Any]) -> int | None:
    """Free memory of the fullest CUDA device that training will use; None if it uses none."""
    return min((free for free, _ in device_bytes(trainer)), default=None)


def device_bytes(trainer: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Free and whole memory of each CUDA device that training will use."""
    if not uses_cuda(trainer):
        return []
    devices, wanted = list(range(torch.cuda.device_count())), TrainerFlags.of(trainer).devices
    if isinstance(wanted, str) and "," in wanted:
        wanted = [int(number) for number in wanted.split(",") if number]
    if isinstance(wanted, list):
        devices = wanted
    elif isinstance(wanted, int) and wanted > 0:
        devices = devices[:wanted]
    return [torch.cuda.mem_get_info(number) for number in devices]


def host_free_bytes(cgroups: Path = CGROUPS) -> int:
    """Free memory of the machine, or what the limit of a container leaves of it."""
    free = int(psutil.virtual_memory().available)
    return min([free, *(max(0, limit - used) for limit, used in _container_memory(cgroups))])


def host_used_share(cgroups: Path = CGROUPS) -> float:
    """Used share of the machine's memory, or of a container's limit where that is fuller."""
    used = float(psutil.virtual_memory().percent) / 100
    return max([used, *(used / max(1, limit) for limit, used in _container_memory(cgroups))])


def _container_memory(cgroups: Path) -> Iterator[tuple[int, int]]:
    """Limit and use of a container, each in bytes; nothing where there is no limit."""
    for limit_name, usage, statistics, cached in CGROUP_FILES:
        try:
            limit = int((cgroups / limit_name).read_text())
            taken = int((cgroups / usage).read_text())
        except (OSError, ValueError):  # no such control group, or its limit is the word "max"
            continue
        yield limit, taken - _cached_bytes(cgroups / statistics, cached)


def _cached_bytes(statistics: Path, name: str) -> int:
    """Memory that caches files: it counts as used, but is available to programs."""
    try:
        entries = dict(line.split() for line in statistics.read_text().splitlines())
        return int(entries.get(name, 0))
    except (OSError, ValueError):
        return 0
