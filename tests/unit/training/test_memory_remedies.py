"""Who runs out of memory in a training is told what to change."""

import pytest
import torch

from leakdet.config import DataConfig
from leakdet.errors import LeakdetError
from leakdet.training.memory_remedies import full_memory_explained, remedy


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
