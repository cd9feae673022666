"""The shared memory through which worker processes hand over their batches, checked beforehand."""

import os
import shutil
import sys
from pathlib import Path

from leakdet.config import DataConfig
from leakdet.errors import SettingsError
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

    Raises:
        SettingsError: it is too small, or may not be written.
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
