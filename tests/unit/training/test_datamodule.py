"""What a run reads from its data; whatever is wrong with a store is found before epoch 0."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from leakdet.config import DataConfig, StopConfig, TrainConfig
from leakdet.core.errors import InputError
from leakdet.storage.hdf5 import seal_h5
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.resume import store_fingerprint

WINDOWS, LABELS = [3, 2, 4, 1], [0, 1, 1, 1]


def module(store: Path, **data: Any) -> LeakDataModule:
    """Everything of `store` that a training reads before epoch 0."""
    config = TrainConfig(data=DataConfig(**data), stop=StopConfig("val"))
    made = LeakDataModule(config, store)
    made.setup("fit")
    made.read_windows()
    return made


@pytest.fixture
def store(stores: SimpleNamespace, tmp_path: Path) -> Path:
    for name in ("train", "val", "test"):
        groups = {"site": [f"{name}-{row}" for row in range(4)]}
        stores.write_split(tmp_path / f"{name}.h5", WINDOWS, LABELS, groups=groups)
    return tmp_path


def test_a_good_store_passes(store: Path) -> None:
    for residency in ("ram", "device", "stream", "auto"):
        data = module(store, residency=residency)
        assert data.residency.kind == (residency if residency != "auto" else "ram")
        assert len(data.train_dataloader()) == 1
        assert sum(len(batch.mel) for batch in data.val_dataloader()) == sum(WINDOWS)
        assert data.val_is_leak.tolist() == [True, False, False, False]


def test_the_constructor_opens_nothing_and_a_second_setup_does_nothing(store: Path) -> None:
    LeakDataModule(TrainConfig(), store / "nowhere")
    data = module(store)
    splits, samples = data.splits, data.train_samples
    data.setup("validate")
    data.read_windows()
    assert data.splits is splits
    assert data.train_samples is samples


def test_under_other_settings_the_open_data_are_shared(store: Path) -> None:
    data = module(store, batch_size=512, residency="ram")
    smaller = replace(data.config, data=replace(data.config.data, batch_size=1))
    other = data.with_settings(smaller)
    assert len(other.train_dataloader()) == sum(WINDOWS)
    assert data.config.data.batch_size > 1
    assert other.train_dataloader().memory is data.train_dataloader().memory  # type: ignore[attr-defined]


def test_a_resumed_loader_begins_where_the_interrupted_one_was_and_the_next_one_anew(
    store: Path,
) -> None:
    data = module(store, batch_size=2)
    interrupted = data.train_dataloader()
    seen = [batch.recording.tolist() for batch in itertools.islice(interrupted, 3)]
    data.load_state_dict(data.state_dict())
    rest = [batch.recording.tolist() for batch in data.train_dataloader()]
    whole = [batch.recording.tolist() for batch in data.train_dataloader()]
    assert seen + rest == whole


def test_the_mix_is_of_what_is_drawn_and_moves_under_a_curriculum(store: Path) -> None:
    assert module(store).train_mix.tolist() == [0.7, 0.3]
    assert module(store, sampling="balanced").train_mix.tolist() == [0.5, 0.5]
    curriculum = module(store, sampling="curriculum", curriculum_epochs=2)
    assert [curriculum.mix_of_epoch(epoch)[1] for epoch in (0, 1, 2, 9)] == [0.5, 0.4, 0.3, 0.3]
    assert curriculum.train_mix[1] == 0.3


def test_standardisation_sees_the_same_samples_whatever_the_residency(store: Path) -> None:
    seen = [
        np.concatenate(
            [batch.numpy() for batch in module(store, residency=kind).standardisation_batches()]
        )
        for kind in ("ram", "stream")
    ]
    assert np.array_equal(*seen)
    assert len(seen[0]) == sum(WINDOWS)


@contextmanager
def rewritten(path: Path) -> Iterator[h5py.File]:
    """A store's file open for a change that its seal covers."""
    with h5py.File(path, "r+") as file:
        yield file
    seal_h5(path)


def damage(path: Path, dataset: str, change: Callable[[np.ndarray], Any]) -> None:
    with rewritten(path) as file:
        values = file[dataset][...]
        change(values)
        file[dataset][...] = values


def _set(index: Any, value: Any) -> Callable[[np.ndarray], None]:
    return lambda values: values.__setitem__(index, value)


@pytest.mark.parametrize(
    ("name", "dataset", "change", "message"),
    [
        ("train", "mel", _set((4, 0, 0, 0), 7), r"train\.h5: recording train-1 .*damaged.*copy it"),
        ("val", "mel", _set((9, 1, 1, 0), 7), r"val\.h5: recording val-3 .*damaged"),
        ("train", "mel", _set((5, 0, 0, 0), np.nan), r"train\.h5: recording train-2 holds NaN"),
        ("val", "mel", _set((0, 0, 0, 0), np.inf), r"val\.h5: recording val-0 .*NaN"),
        ("train", "label_id", _set(2, 5), r"train\.h5: label_id 5 of recording train-2 .*vocabulary"),
        ("train", "label_id", _set(0, 1), r"train .*0 leaks .*4 recordings"),
        ("val", "label_id", _set(0, 1), r"val .*0 leaks .*4 recordings"),
        ("val", "recording_offsets", _set(1, 9), r"val\.h5: recording_offsets "),
        ("val", "group/site", _set(2, "train-1"), r"group \(site\) train-1 .*train\.h5 .*val\.h5"),
        ("test", "content_sha256", _set(3, "val-0"), r"sound of test-3 .*val\.h5 .*test\.h5"),
        ("test", "recording_id", _set(1, "train-0"), r"the recording train-0 lies in train\.h5 and in test\.h5"),
        ("train", "recording_id", _set(1, "train-0"), r"train has train-0 more than once"),
    ],
)  # fmt: skip
def test_a_faulty_store_is_refused_before_epoch_0(
    store: Path, name: str, dataset: str, change: Callable[[np.ndarray], None], message: str
) -> None:
    damage(store / f"{name}.h5", dataset, change)
    with pytest.raises(InputError, match=message):
        module(store, residency="ram")


@pytest.mark.parametrize("residency", ["ram", "stream"])
@pytest.mark.parametrize("lacking", [("train", "val", "test"), ("test",)])
def test_a_store_without_hashes_of_its_sounds_is_compared_by_its_mel(
    store: Path, residency: str, lacking: tuple[str, ...]
) -> None:
    """The stores of these tests have the same mel in all their splits."""
    for name in lacking:
        with rewritten(store / f"{name}.h5") as file:
            del file["content_sha256"]
    with pytest.raises(InputError, match=r"same mel .*train\.h5 .*val\.h5, 4 times .*Build"):
        module(store, residency=residency)


@pytest.mark.parametrize("residency", ["ram", "stream"])
def test_the_test_split_is_read_where_it_will_be_scored(store: Path, residency: str) -> None:
    damage(store / "test.h5", "mel", _set((4, 0, 0, 0), 7))
    data = module(store, residency=residency)
    with pytest.raises(InputError, match=r"test\.h5: recording test-1 is damaged"):
        data.read_windows(test=True)


def test_a_group_column_that_a_split_lacks_is_blank_there(store: Path) -> None:
    with rewritten(store / "val.h5") as file:
        del file["group/site"]
    module(store)  # its recordings belong to no site


@pytest.mark.parametrize("residency", ["ram", "stream"])
@pytest.mark.parametrize("split", ["TRAINING", "VALIDATION"])
def test_recordings_that_ailh_never_read_are_not_trained_on(
    tmp_path: Path, residency: str, split: str
) -> None:
    for seed, name in enumerate(("TRAINING", "VALIDATION")):
        mel = np.random.default_rng(seed).normal(-60, 9, (6, 4, 2, 8, 1)).astype(np.float16)
        if name == split:
            mel[3] = 0
        with h5py.File(tmp_path / f"{name}_DATASET.H5", "w") as file:
            file["segments_mel"], file["labels"] = mel, np.array([0, 1] * 3, np.int16)
            file.attrs["labels_json"] = json.dumps(["LEAK", "NOLEAK"])
    with pytest.raises(InputError, match=rf"{split}_DATASET#3.*leakdet build "):
        list(module(tmp_path, residency=residency).train_dataloader())


def test_blank_groups_are_no_groups(stores: SimpleNamespace, tmp_path: Path) -> None:
    for name in ("train", "val"):
        stores.write_split(
            tmp_path / f"{name}.h5", WINDOWS, LABELS, groups={"site": ["", "", "", name]}
        )
    module(tmp_path)


def test_a_cut_off_file_is_named(store: Path) -> None:
    path = store / "train.h5"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match=r"train\.h5.*cut off"):
        module(store)


def test_a_stream_finds_the_damaged_recording_while_it_reads(store: Path) -> None:
    damage(store / "train.h5", "mel", _set((4, 0, 0, 0), 7))
    loader = module(store, residency="stream").train_dataloader()
    with pytest.raises(InputError, match=r"recording train-1 is damaged"):
        list(loader)


def test_a_resumed_stream_looks_at_what_it_reads_too(store: Path) -> None:
    damage(store / "train.h5", "mel", _set((4, 0, 0, 0), 7))
    loader = module(store, residency="stream").train_dataloader()
    loader.set_epoch(3)
    with pytest.raises(InputError, match=r"recording train-1 is damaged"):
        list(loader)


@pytest.mark.parametrize("name", ["val", "test"])
def test_every_split_has_the_signal_and_the_labels_of_train(
    stores: SimpleNamespace, store: Path, name: str
) -> None:
    with rewritten(store / f"{name}.h5") as file:
        told = json.loads(file.attrs["signal"])
        file.attrs["signal"] = json.dumps(told | {"fmin_hz": told["fmin_hz"] + 7})
    with pytest.raises(InputError, match=rf"train\.h5 and {name}\.h5 .*signal.*fmin_hz"):
        module(store)
    groups = {"site": [f"{name}-{row}" for row in range(4)]}
    stores.write_split(store / f"{name}.h5", WINDOWS, LABELS, groups=groups)
    with rewritten(store / f"{name}.h5") as file:
        file.attrs["label_names"] = json.dumps(["LEAK", "PUMP"])
    with pytest.raises(InputError, match=rf"{name}\.h5 .*PUMP.*the same vocabulary"):
        module(store)


def test_a_flipped_bit_in_a_compressed_chunk_names_its_recording(
    stores: SimpleNamespace, tmp_path: Path
) -> None:
    packed = {"compression": "gzip", "fletcher32": True, "chunks": (1, 2, 2, 1)}
    for name in ("train", "val"):
        stores.write_split(tmp_path / f"{name}.h5", WINDOWS, LABELS, mel=packed)
    with h5py.File(tmp_path / "train.h5") as file:
        where = file["mel"].id.get_chunk_info(4).byte_offset
    with (tmp_path / "train.h5").open("r+b") as file:
        file.seek(where + 3)
        byte = file.read(1)
        file.seek(where + 3)
        file.write(bytes([byte[0] ^ 255]))
    for residency in ("ram", "stream"):
        with pytest.raises(InputError, match=r"recording train-1 \(train\)"):
            list(module(tmp_path, residency=residency).train_dataloader())


def test_other_recordings_of_the_same_lengths_are_other_data(store: Path) -> None:
    """Split anew with another seed, val may hold what train held: no run may go on there."""
    before = store_fingerprint(module(store))
    assert store_fingerprint(module(store)) == before
    damage(store / "train.h5", "recording_id", _set(0, "another"))
    assert store_fingerprint(module(store)) != before


@pytest.mark.parametrize(("accelerator", "goes"), [("cpu", False), ("gpu", True), ("auto", True)])
def test_memory_is_pinned_only_where_an_accelerator_reads_it(
    accelerator: str, goes: bool, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    config = TrainConfig(data=DataConfig(residency="stream"), trainer={"accelerator": accelerator})
    data = LeakDataModule(config, store)
    data.setup("fit")
    assert data.train_samples.pins == data.val_samples.pins == goes
