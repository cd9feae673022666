"""Samples in memory: the same as those in the files, whatever is asked for."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from leakdet.loading.in_memory import InMemorySamples

WINDOWS, LABELS = [3, 1, 7, 2], [0, 1, 1, 0]


@pytest.mark.parametrize("unit", ["window", "segment"])
@pytest.mark.parametrize("shards", [1, 2])
def test_any_samples_are_those_of_the_files(
    stores: SimpleNamespace, tmp_path: Path, unit: str, shards: int
) -> None:
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, unit, shards)
    memory = InMemorySamples(samples)
    whole = samples.batch(0, len(samples))
    for given, expected in zip(memory.batch(0, len(samples)), whole, strict=True):
        assert torch.equal(given, expected)
    index = torch.tensor([5, 0, 5, len(samples) - 1])
    for given, expected in zip(memory.take(index), whole, strict=True):
        assert torch.equal(given, expected[index])
    # a strided index, as a rank takes it
    for given, expected in zip(memory.take(torch.arange(9)[1::3]), whole, strict=True):
        assert torch.equal(given, expected[1:9:3])


def test_moving_moves_everything(stores: SimpleNamespace, tmp_path: Path) -> None:
    memory = InMemorySamples(stores.samples_of(tmp_path, WINDOWS, LABELS, "segment"))
    moved = memory.to(torch.device("meta"))
    assert moved is memory
    assert moved.device.type == "meta"
    assert {column.device.type for column in moved.batch(1, 3)} == {"meta"}


def test_one_uncompressed_file_is_mapped_and_not_copied(
    stores: SimpleNamespace, tmp_path: Path
) -> None:
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, "window")
    mapped = samples.split.mel.mapped
    assert InMemorySamples(samples).mel.data_ptr() == mapped.ctypes.data
