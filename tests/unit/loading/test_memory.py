import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from leakdet.config import DataConfig
from leakdet.core.errors import SettingsError
from leakdet.loading import memory
from leakdet.loading.memory import (
    OTHER_BYTES,
    PAGE_BYTES,
    accelerator_free_bytes,
    choose_residency,
    host_free_bytes,
    host_used_share,
    require_shared_memory,
)
from leakdet.loading.samples import SplitSamples


@pytest.fixture
def samples(
    stores: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SplitSamples:
    """Ten windows; the shared memory is a folder, on Linux."""
    monkeypatch.setattr(memory, "PLACE", tmp_path)
    monkeypatch.setattr(memory.sys, "platform", "linux")
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
    monkeypatch.setattr(memory, "PLACE", tmp_path / "none")
    with pytest.raises(SettingsError, match=r"none, which is missing.*data\.workers=0"):
        require_shared_memory(samples, DataConfig(workers=2))
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    require_shared_memory(samples, DataConfig(workers=2))


def test_auto_takes_the_fastest_place_that_is_large_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakdet.loading.memory.host_free_bytes", lambda: 10**9)
    cpu = {"accelerator": "cpu"}
    assert choose_residency("auto", 4 * 10**8, cpu).kind == "ram"
    assert choose_residency("auto", 6 * 10**8, cpu).kind == "stream"
    assert choose_residency("ram", 6 * 10**8, cpu).kind == "ram"
    monkeypatch.setattr("leakdet.loading.memory.accelerator_free_bytes", lambda trainer: 10**9)
    chosen = choose_residency("auto", 4 * 10**8, {"accelerator": "gpu"})
    assert chosen.kind == "device"
    assert "0.40 GB" in chosen.reason
    assert "1.0 GB free" in chosen.reason


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("device", "1.00 GB, kept on the accelerator (data.residency=device)"),
        ("ram", "1.00 GB, kept in memory (data.residency=ram)"),
        ("stream", "1.00 GB, streamed from the files (data.residency=stream)"),
    ],
)
def test_a_given_place_is_taken_and_said(kind: str, reason: str) -> None:
    chosen = choose_residency(kind, 10**9, {"accelerator": "cpu"})
    assert (chosen.kind, chosen.reason) == (kind, reason)


@pytest.mark.parametrize(
    ("devices", "free"),
    [("auto", 3), (None, 3), (-1, 3), (1, 7), (2, 5), ([2], 3), ("0,1", 5)],
)
def test_the_fullest_device_of_the_training_counts(
    devices: Any, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda number: ((7, 5, 3)[number], 9))
    assert accelerator_free_bytes({"accelerator": "gpu", "devices": devices}) == free
    assert accelerator_free_bytes({"accelerator": "cpu", "devices": devices}) is None


def test_one_process_chooses_for_all_of_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakdet.loading.memory.host_free_bytes", lambda: 10**9)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    # left by an earlier run: not for a first process
    monkeypatch.setenv("LEAKDET_RESIDENCY", "stream")
    cpu = {"accelerator": "cpu"}
    assert choose_residency("auto", 4 * 10**8, cpu).kind == "ram"
    # the first one took it
    monkeypatch.setattr("leakdet.loading.memory.host_free_bytes", lambda: 10**8)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose_residency("auto", 4 * 10**8, cpu).kind == "ram"
    monkeypatch.delenv("LEAKDET_RESIDENCY")  # started by another program
    assert choose_residency("auto", 4 * 10**8, cpu).kind == "stream"


@pytest.mark.parametrize(
    ("names", "cached"),
    [
        (("memory.max", "memory.current", "memory.stat"), "inactive_file"),
        (
            (
                "memory/memory.limit_in_bytes",
                "memory/memory.usage_in_bytes",
                "memory/memory.stat",
            ),
            "total_inactive_file",
        ),
    ],
)
def test_files_read_lately_do_not_count_as_used(
    tmp_path: Path, names: tuple[str, ...], cached: str
) -> None:
    (tmp_path / "memory").mkdir()
    for name, text in zip(
        names, ("5000", "4500", f"anon 100\n{cached} 3000\nother 9\n"), strict=True
    ):
        (tmp_path / name).write_text(text)
    assert host_free_bytes(tmp_path) == 3500


def test_free_memory_heeds_a_containers_limit(tmp_path: Path) -> None:
    machine = host_free_bytes(tmp_path)
    assert machine > 0
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("2000\n")
    assert host_free_bytes(tmp_path) == 3000
    (tmp_path / "memory.max").write_text("max\n")
    assert host_free_bytes(tmp_path) > 3000


def test_used_memory_is_that_of_a_containers_limit_where_that_is_fuller(tmp_path: Path) -> None:
    machine = host_used_share(tmp_path)
    assert 0 < machine <= 1
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("1400\n")
    (tmp_path / "memory.stat").write_text("inactive_file 410\n")
    assert host_used_share(tmp_path) == pytest.approx(max(0.99, machine), abs=0.01)
    (tmp_path / "memory.current").write_text("410\n")
    assert host_used_share(tmp_path) == pytest.approx(machine, abs=0.05)
