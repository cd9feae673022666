"""Memory that a training step frees stays with the process: the next step asks for as much again."""

import ctypes
import os
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as glibc's malloc.h numbers them
LARGEST_HELD = (1 << 30, 1 << 25)  # glibc before 2.35 takes no more than the second
KEPT = (1 << 31) - 1  # freed memory beyond this goes back to the system


def keep_freed_memory() -> bool:
    """Let the C library hold what is freed, up to 2 GiB; True where it does so: in Linux processes on glibc.

    It gives the large tensors of a step back to the system, one by one, and gets them anew, page by page and zeroed, for the
    next: a tenth to a third of a step on a CPU, and pauses of 15 ms where a network's tensors are freed (measured:
    docs/benchmarks.md).
    Whoever tunes malloc by environment variables is not overruled. It holds for the whole process, and there is no way back.
    """
    tuned = any(name.startswith("MALLOC_") for name in os.environ) or "GLIBC_TUNABLES" in os.environ
    if sys.platform != "linux" or tuned:
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # another C library has none
    return bool(
        mallopt
        and any(mallopt(M_MMAP_THRESHOLD, size) for size in LARGEST_HELD)
        and mallopt(M_TRIM_THRESHOLD, KEPT)
    )
