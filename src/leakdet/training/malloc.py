"""Keeps the memory that a training step frees in the process, for the next step."""

import ctypes
import os
import sys

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
