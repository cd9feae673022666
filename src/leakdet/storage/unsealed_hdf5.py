"""A first look at an HDF5 file without a seal, by a process of its own that may be ended.

In a damaged file HDF5 may follow a circle of addresses for ever, inside C, where no signal of
Python and no thread reaches it. A seal notices the damage before; stores of older versions have
none.
"""

import signal
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from leakdet.errors import InputError

CPU_S = 4  # of the look, which takes a tenth of a second; waiting for a slow disk takes none
MEMORY_BYTES = 1 << 30  # a circle may also take memory without end
SMALL_BYTES = 64 << 20  # data sets up to here are read; of larger ones the index of their chunks
OUT_OF_MEMORY = 3
LOOK = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({CPU_S}, {CPU_S} + 1))
resource.setrlimit(resource.RLIMIT_DATA, ({MEMORY_BYTES}, {MEMORY_BYTES}))
import h5py
def look(name, item):
    dict(item.attrs)
    if isinstance(item, h5py.Dataset):
        if item.chunks:
            item.id.get_num_chunks()
        if item.nbytes <= {SMALL_BYTES}:
            item[...]
try:
    with h5py.File(sys.argv[1], "r", locking=False) as file:
        dict(file.attrs)
        file.visititems(look)
except Exception as error:
    is_memory = isinstance(error, MemoryError) or "alloc" in str(error)
    sys.exit({OUT_OF_MEMORY} if is_memory else 0)
"""
ENDLESS = (OUT_OF_MEMORY, -signal.SIGXCPU, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGABRT)


def check_ends(path: Path, remedy: str) -> None:
    """Check that HDF5 comes to an end with this file; once, and again after a change.

    Raises:
        InputError: it follows a circle, or ends the process.
    """
    status = path.stat()
    _check_ends(path, remedy, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=4096)
def _check_ends(path: Path, remedy: str, state: tuple[int, int, int, int]) -> None:
    # -P: no module in the current folder is imported; errors are met again, and told, by the reader
    command = [sys.executable, "-P", "-c", LOOK, str(path)]
    nothing = subprocess.DEVNULL
    code = subprocess.run(
        command, stdin=nothing, stdout=nothing, stderr=nothing, check=False
    ).returncode
    if code in ENDLESS:
        raise InputError(f"{path}: damaged: HDF5 never comes to an end with it. {remedy}")
