import os
import re
import subprocess
import sys

import pytest
import torch

from leakdet.config import DataConfig
from leakdet.core.errors import LeakdetError
from leakdet.training import log_names
from leakdet.training.memory import (
    GpuMemory,
    full_memory_explained,
    read_gpu_memory,
    remedy,
    why_no_gpu_use,
)

STEPS = """
import resource
import numpy as np
from leakdet.training.memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        for megabytes in (3, 100, 20):
            np.ones(megabytes << 20, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
plain = faults()
kept = keep_freed_memory()
faults()
print(int(kept), plain, faults())
"""


def run(**environment: str) -> tuple[bool, int, int]:
    """Whether freed memory is kept, and the page faults of the same steps before and after."""
    done = subprocess.run(
        [sys.executable, "-c", STEPS],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    kept, plain, faults = map(int, done.stdout.split())
    return bool(kept), plain, faults


def test_the_next_step_gets_the_memory_of_the_last_one() -> None:
    kept, plain, faults = run()
    if not kept:
        pytest.skip("the C library is not glibc")
    assert plain > 1000
    assert faults < plain / 10


def test_settings_of_malloc_in_the_environment_are_kept() -> None:
    kept, *_ = run(MALLOC_TRIM_THRESHOLD_="100000")
    assert not kept


def test_the_sentence_has_the_batch_size_and_half_of_it() -> None:
    with (
        pytest.raises(LeakdetError, match=r"batches of 8192\. Try data\.batch_size=4096"),
        full_memory_explained(DataConfig(batch_size=8192), "ram", on_gpu=True),
    ):
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_other_errors_pass() -> None:
    with (
        pytest.raises(RuntimeError, match="expected"),
        full_memory_explained(DataConfig(), "ram", on_gpu=False),
    ):
        raise RuntimeError("expected a tensor")


def test_what_makes_room_depends_on_where_the_windows_are() -> None:
    assert "residency=ram" in remedy(DataConfig(), "device", on_gpu=True)
    assert "residency" not in remedy(DataConfig(), "ram", on_gpu=True)
    assert "residency=stream" in remedy(DataConfig(), "ram", on_gpu=False)
    assert "fewer data.workers" in remedy(DataConfig(workers=2), "stream", on_gpu=False)
    assert "workers" not in remedy(DataConfig(), "stream", on_gpu=False)


CUDA = torch.device("cuda")
GB = 10**9


class NVMLError(Exception):
    """As pynvml's: no RuntimeError."""


def test_memory_is_what_driver_and_allocator_say(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {
        "allocated_bytes.all.current": 10 * GB,
        "allocated_bytes.all.peak": 40 * GB,
        "reserved_bytes.all.current": 20 * GB,
        "reserved_bytes.all.peak": 50 * GB,
    }
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (55 * GB, 80 * GB))
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda _: counts)
    memory = read_gpu_memory(CUDA)
    assert memory is not None
    assert memory.others == 5 * GB
    assert memory.numbers() == {
        log_names.GPU_ALLOCATED: 10,
        log_names.GPU_RESERVED: 20,
        log_names.GPU_PEAK: 40,
        log_names.GPU_MEMORY: pytest.approx(55 / 80),
    }
    assert read_gpu_memory(torch.device("cpu")) is None


def test_a_device_that_torch_has_not_used_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (8 * GB, 8 * GB))
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda _: {})
    assert read_gpu_memory(CUDA) == GpuMemory(8 * GB, 8 * GB, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, None),
        (
            ModuleNotFoundError("nvidia-ml-py does not seem to be installed."),
            r"^not measured: .*pip install .*\[gpu\]'$",
        ),
        (
            NVMLError("Not Supported"),
            r"^not measured: .*\(Not Supported\)$",
        ),
    ],
)
def test_what_keeps_the_use_from_being_read_is_said(
    error: Exception | None, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def utilization(device: torch.device) -> int:
        if error is not None:
            raise error
        return 80

    monkeypatch.setattr(torch.cuda, "utilization", utilization)
    found = why_no_gpu_use(CUDA)
    assert (found is None) if said is None else re.search(said, found or "")
    assert why_no_gpu_use(torch.device("cpu")) is None
