"""Memory of a GPU and of whom it is, and why its use may not be read, without a GPU."""

import pytest
import torch

from leakdet.training import log_names
from leakdet.training.gpu_readings import GpuMemory, read_gpu_memory, why_no_gpu_use

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
            "not measured: nvidia-ml-py does not seem to be installed; pip install 'leakdet[gpu]'",
        ),
        (
            NVMLError("Not Supported"),
            "not measured: the driver does not tell it (Not Supported)",
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
    assert why_no_gpu_use(CUDA) == said
    assert why_no_gpu_use(torch.device("cpu")) is None
