"""Batches of worker processes fit into shared memory, or the training is refused."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from leakdet.config import DataConfig
from leakdet.errors import SettingsError
from leakdet.loading import shared_memory
from leakdet.loading.samples import SplitSamples
from leakdet.loading.shared_memory import OTHER_BYTES, PAGE_BYTES, require_shared_memory


@pytest.fixture
def samples(
    stores: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SplitSamples:
    """Ten windows; the shared memory is a folder, on Linux."""
    monkeypatch.setattr(shared_memory, "PLACE", tmp_path)
    monkeypatch.setattr(shared_memory.sys, "platform", "linux")
    samples: SplitSamples = stores.samples_of(tmp_path, [4, 3, 3], [0, 1, 1], "window")
    return samples


def test_the_batches_that_are_under_way_must_fit(
    samples: SplitSamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = samples.batch(0, 10)
    assert samples.batch_bytes(10) == sum(tensor.nbytes for tensor in batch)
    # two for each worker, and two
    need = 6 * (samples.batch_bytes(10) + 4 * PAGE_BYTES) + OTHER_BYTES
    for free in (need, need - 1):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        data = DataConfig(batch_size=512, workers=2)
        if free == need:
            require_shared_memory(samples, data)
            continue
        with pytest.raises(SettingsError, match=r"data\.workers=2.*MB free.*data\.workers=0"):
            require_shared_memory(samples, data)
    require_shared_memory(samples, DataConfig(batch_size=8, workers=2))  # smaller batches
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    require_shared_memory(samples, DataConfig(workers=0))


def test_where_there_is_none_it_is_named(
    samples: SplitSamples, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shared_memory, "PLACE", tmp_path / "none")
    with pytest.raises(SettingsError, match=r"none, which is missing.*data\.workers=0"):
        require_shared_memory(samples, DataConfig(workers=2))
    monkeypatch.setattr(shared_memory.sys, "platform", "darwin")
    require_shared_memory(samples, DataConfig(workers=2))
