"""Adding to a store: what is added, what stays, what is refused, and that it is whole or not."""

import csv
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import soundfile
import torch
from tests.conftest import says

from leakdet.building import addition
from leakdet.building.addition import add_to_store
from leakdet.building.builder import build_store
from leakdet.config import BuildConfig, LabelsConfig, SignalConfig, SplitConfig, TrainConfig
from leakdet.core.errors import InputError
from leakdet.storage.opening import open_split, split_names
from leakdet.training.datamodule import LeakDataModule

SIGNAL = SignalConfig(fmax_hz=8000.0)
SPLITS = ["train"] * 4 + ["val"] * 2 + ["test"] * 2
Row = dict[str, str]


@pytest.fixture
def sound(tmp_path: Path):
    """`sound(number, label, …)`: a row of a manifest, and its file of 1.5 s."""

    def make(number: int, label: str, **columns: str) -> Row:
        path = tmp_path / "in" / f"{number}.wav"
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            noise = np.random.default_rng(number).standard_normal(24_000)
            soundfile.write(path, 0.1 * noise, 16_000)
        return {"path": str(path), "label": label, "split": "", "site": f"s{number}", **columns}

    return make


@pytest.fixture
def first(sound) -> list[Row]:
    return [sound(n, ("leak", "quiet")[n % 2], split=split) for n, split in enumerate(SPLITS)]


@pytest.fixture
def second(sound) -> list[Row]:
    return [sound(n, ("leak", "quiet")[n % 2]) for n in range(20, 25)]


def manifest(path: Path, rows: list[Row]) -> str:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def built(folder: Path, name: str, rows: list[Row], **changes: Any) -> Path:
    settings: dict[str, Any] = {"split": SplitConfig(group_by=["site"]), **changes}
    source = manifest(folder / f"{name}.csv", rows)
    build_store(BuildConfig(source, str(folder / name), SIGNAL, verify="off", **settings))
    return folder / name


def added(store: Path, rows: list[Row], **changes: Any):
    source = manifest(store.parent / "new.csv", rows)
    return add_to_store(BuildConfig(source, "", add_to=str(store), verify="full", **changes))


def content(store: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(store.iterdir()) if p.is_file()}


def test_a_store_in_two_steps_trains_as_the_one_built_whole(
    tmp_path: Path, first: list[Row], second: list[Row]
) -> None:
    whole = built(tmp_path, "whole", first + [{**row, "split": "train"} for row in second])
    store = built(tmp_path, "store", first)
    report = added(store, second)
    assert report.remarks[-1] == "Added to the 8 recordings of the store: 5 to train."
    assert len(report.rows) == 13
    assert sorted(path.name for path in store.glob("*.h5")) == [
        "test.h5", "train-00000-of-00002.h5", "train-00001-of-00002.h5", "val.h5",
    ]  # fmt: skip
    for name in split_names(store):
        one, other = open_split(whole, name), open_split(store, name)
        assert one.recording_ids.tolist() == other.recording_ids.tolist()
        assert np.array_equal(one.read(0, one.windows), other.read(0, other.windows))
    batches = []
    for folder in (whole, store):
        data = LeakDataModule(TrainConfig(), folder)
        data.setup()
        data.read_windows()
        loader = data.train_loader()
        batches.append([batch for _ in range(2) for batch in loader])
    for one, other in zip(*batches, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_store_is_added_to_again_and_again(
    tmp_path: Path, first: list[Row], second: list[Row], sound
) -> None:
    store = built(tmp_path, "store", first, waveform="int16")
    (store / "notes").mkdir()
    (store / "notes" / "mine.txt").write_text("keep")
    added(store, second[:2])
    report = added(store, [*second[2:], sound(30, "Leak", split="val")])
    assert report.remarks[-1] == "Added to the 10 recordings of the store: 3 to train, 1 to val."
    assert open_split(store, "train").recordings == 9
    assert open_split(store, "val").recordings == 3
    assert open_split(store, "train").has("waveform")
    assert len(list(csv.DictReader((store / "recordings.csv").read_text().splitlines()))) == 14
    assert (store / "notes" / "mine.txt").read_text() == "keep"
    for file in store.glob("*.h5"):
        with h5py.File(file) as opened:
            assert opened.attrs["group_by"] == '["site"]'
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_copies_groups_and_tests_stay_out_with_their_reason(
    tmp_path: Path, first: list[Row], sound
) -> None:
    store = built(tmp_path, "store", first)
    copy = tmp_path / "in" / "copy.wav"
    copy.write_bytes((tmp_path / "in" / "0.wav").read_bytes())
    other = tmp_path / "in" / "other.wav"
    other.write_bytes((tmp_path / "in" / "7.wav").read_bytes())
    rows = [
        {**sound(40, "leak"), "path": str(copy)},
        {**sound(41, "leak"), "path": str(other)},
        sound(42, "leak", site="s6"),
        sound(43, "leak", split="test"),
        sound(44, "leak", site="s4", split="val"),
        sound(45, "leak", site="s0"),
    ]
    report = added(store, rows)
    reasons = {Path(item.path).name: item.reason for item in report.left_out}
    facts = {
        "copy.wav": rf"same sound as {first[0]['path']} \(leak\), in train",
        "other.wav": rf"same sound as {first[7]['path']} \(quiet\), in test",
        "42.wav": "site s6 .*in test.* train$",
        "43.wav": "test split stays",
    }
    assert reasons.keys() == facts.keys()
    assert says(reasons.values(), *(facts[name] for name in reasons))
    splits = [row["split"] for row in report.rows[-2:]]
    assert splits == ["train", "val"]


def test_nothing_to_add_leaves_the_store_as_it_was(tmp_path: Path, first: list[Row]) -> None:
    store = built(tmp_path, "store", first)
    before = content(store)
    with pytest.raises(InputError, match=r"nothing to add.*same sound as"):
        added(store, [{**row, "split": ""} for row in first[:4]])
    with pytest.raises(InputError, match=r"nothing to add.*test split"):
        added(store, [{**row, "split": "test"} for row in first[:4]])
    assert content(store) == before


def test_labels_are_those_of_the_store(tmp_path: Path, first: list[Row], second, sound) -> None:
    store = built(tmp_path, "store", first)
    holes = [*second, sound(50, "dry_hole")]
    with pytest.raises(
        InputError,
        match=r"1 recording with the label dry_hole.*leak, quiet.*rename={dry_hole: LABEL}",
    ):
        added(store, holes)
    with pytest.raises(InputError, match=r"in .* leaks are leak"):
        added(store, second, labels=LabelsConfig(leak="quiet"))
    report = added(store, holes, labels=LabelsConfig(rename={"dry_hole": "QUIET"}))
    assert report.rows[-1]["label"] == "quiet"
    assert report.label_names == ["leak", "quiet"]


def test_another_signal_and_missing_groups_are_refused(
    tmp_path: Path, first: list[Row], second: list[Row]
) -> None:
    store = built(tmp_path, "store", first)
    with pytest.raises(InputError, match=r"signal .*n_mels: 64 / 32"):
        added(store, second, signal=SignalConfig(n_mels=32))
    without = [{key: value for key, value in row.items() if key != "site"} for row in second]
    with pytest.raises(InputError, match="no site"):
        added(store, without)
    with pytest.raises(InputError, match="no such store"):
        added(tmp_path / "nowhere", second)


def test_another_sound_under_a_name_of_the_store_is_left_out(
    tmp_path: Path, first: list[Row], second: list[Row]
) -> None:
    store = built(tmp_path, "store", first)
    noise = np.random.default_rng(99).standard_normal(24_000)
    soundfile.write(first[0]["path"], 0.1 * noise, 16_000)
    report = added(store, [{**first[0], "split": ""}, *second])
    assert says([item.reason for item in report.left_out], "another recording of this name")


def test_folders_with_the_same_names_inside_are_told_apart(tmp_path: Path) -> None:
    for folder, seeds in (("old", range(20)), ("new", range(50, 54))):
        for number, seed in enumerate(seeds):
            path = tmp_path / folder / ("leak", "quiet")[number % 2] / f"{number}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            noise = np.random.default_rng(seed).standard_normal(24_000)
            soundfile.write(path, 0.1 * noise, 16_000)
    store = tmp_path / "store"
    build_store(BuildConfig(str(tmp_path / "old"), str(store), SIGNAL, verify="off"))
    config = BuildConfig(str(tmp_path / "new"), "", add_to=str(store), verify="off")
    report = add_to_store(config)
    assert report.left_out == []
    assert [row["recording_id"] for row in report.rows[-4:]] == [
        str(tmp_path / "new" / name)
        for name in ("leak/0.wav", "leak/2.wav", "quiet/1.wav", "quiet/3.wav")
    ]
    with pytest.raises(InputError, match="nothing to add"):
        add_to_store(config)  # a second time: they are there


def test_a_linked_store_is_added_to_where_it_lies(
    tmp_path: Path, first: list[Row], second: list[Row]
) -> None:
    store = built(tmp_path, "store", first)
    (tmp_path / "link").symlink_to(store)
    added(tmp_path / "link", second)
    assert (tmp_path / "link").is_symlink()
    assert open_split(store, "train").recordings == 9


STEPS = ("staged_folder", "extract_all", "verify_mel", "write_build_files", "publish")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_leaves_the_store_as_it_was(
    tmp_path: Path, first: list[Row], second: list[Row], step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = built(tmp_path, "store", first)
    before = content(store)
    source = manifest(tmp_path / "new.csv", second)
    config = BuildConfig(source, "", add_to=str(store), verify="full", workers=1)
    real = getattr(addition, step)

    def killed(*arguments: Any, **named: Any) -> None:
        if step not in ("staged_folder", "publish"):
            real(*arguments, **named)  # done, and no more
        os._exit(9)

    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # the threads of a pool are not there after a fork
        monkeypatch.setattr(addition, step, killed)
        try:
            add_to_store(config)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert content(store) == before
    add_to_store(config)  # clears up, and does it
    assert open_split(store, "train").recordings == 9
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_store_that_changes_meanwhile_is_not_replaced(
    tmp_path: Path, first: list[Row], second: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = built(tmp_path, "store", first)
    real = addition.check_no_overlap

    def changed(splits: Any) -> None:
        os.utime(store / "train.h5", (0, 0))
        real(splits)

    monkeypatch.setattr(addition, "check_no_overlap", changed)
    with pytest.raises(InputError, match="while it was used"):
        added(store, second)
    assert (store / "train.h5").exists()
