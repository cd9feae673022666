"""A split under label settings: the same windows, other labels, fewer recordings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.config import LabelsConfig
from leakdet.errors import InputError
from leakdet.storage.hdf5 import seal_h5
from leakdet.storage.labelled_split import labelled, view_of, view_of_all
from leakdet.storage.opening import open_labelled, open_split, with_surrogates
from leakdet.storage.views import no_sound_sentence, pooled

NAMES = ["gasket-leak", "Orifice-Leak", "ok", "OK", "unclear"]


@pytest.fixture
def store(write_store: Callable[..., Path], planted: Any) -> Path:
    """Ten recordings of 1 to 5 windows in train and in val, each label twice."""
    folder = write_store(
        **{
            split: [planted("other", 10 * seed + row, windows=1 + row % 5) for row in range(10)]
            for seed, split in enumerate(("train", "val"))
        }
    )
    for split in ("train", "val"):
        with h5py.File(folder / f"{split}.h5", "r+") as file:
            file.attrs["label_names"] = '["gasket-leak", "Orifice-Leak", "ok", "OK", "unclear"]'
            file.attrs["leak_labels"] = '["gasket-leak"]'
            file["label_id"][:] = np.arange(10) % 5
        seal_h5(folder / f"{split}.h5")
    return folder


def test_several_leak_labels_merged_spellings_and_new_names(store: Path) -> None:
    settings = LabelsConfig(leak=["gasket-leak", "orifice-leak"], rename={"unclear": "noise"})
    split = open_labelled(store, "train", settings)
    assert split.label_names == ["gasket-leak", "Orifice-Leak", "ok", "noise"]
    assert split.label_id.tolist() == [0, 1, 2, 2, 3] * 2
    assert split.is_leak.tolist() == [True, True, False, False, False] * 2
    assert split.mel.mapped is not None  # nothing is left out: still read in place


def test_leaving_out_labels_does_not_hide_what_holds_no_sound(
    write_store: Callable[..., Path], planted: Any
) -> None:
    labels_and_sound = (("leak", True), ("other", True), ("other", False))
    folder = write_store(
        train=[
            planted(label, seed, windows=2, live=np.full(2, sound))
            for seed, (label, sound) in enumerate(labels_and_sound)
        ]
    )
    with h5py.File(folder / "train.h5", "r+") as file:
        file.attrs["label_names"] = '["leak", "other", "unclear"]'
        file["label_id"][:] = [0, 1, 1]
    seal_h5(folder / "train.h5")
    split = open_labelled(folder, "train", LabelsConfig(leak=["leak"], ignore=["other"], rename={}))
    assert split.recording_ids.tolist() == ["0000.wav"]
    assert no_sound_sentence(split).startswith("1 recording holds no sound (train)")


def test_left_out_recordings_are_gone_with_their_windows(store: Path) -> None:
    found = open_split(store, "train")
    split = open_labelled(store, "train", LabelsConfig(ignore=["ok", "orifice-leak"]))
    kept = [row for row in range(10) if row % 5 in (0, 4)]
    assert split.recording_ids.tolist() == found.recording_ids[kept].tolist()
    assert split.label_id.tolist() == [0, 1, 0, 1]
    assert split.is_leak.tolist() == [True, False] * 2
    assert split.windows_per_recording.tolist() == [1, 5, 1, 5]
    start = int(found.recording_offsets[4])
    assert np.array_equal(split.read(1, 6), found.read(start, start + 5))
    assert view_of(split).left_out == {"OK": 2, "Orifice-Leak": 2, "ok": 2}


def test_splits_with_fewer_recordings_are_pooled_and_picked_from(store: Path) -> None:
    settings = LabelsConfig(ignore="unclear")
    splits = [open_labelled(store, name, settings) for name in ("train", "val")]
    view = pooled(splits)
    assert view.recordings == 16
    assert view_of_all([view]).left_out == {"unclear": 4}
    picked = view.take(np.array([15, 4]), "fold")
    assert picked.recording_ids.tolist() == ["0018.wav", "0005.wav"]
    whole = open_split(store, "val")
    start = int(whole.recording_offsets[8])
    assert np.array_equal(picked.read(0, 4), whole.read(start, start + 4))
    assert picked.is_leak.tolist() == [False, True]


def test_the_labels_of_the_store_are_the_default(store: Path) -> None:
    split = labelled(open_split(store, "val"))
    assert split.leak_labels == ["gasket-leak"]
    assert any("Orifice-Leak sounds like a leak" in note for note in view_of(split).notes())
    assert view_of(open_split(store, "val")).leaks == ("gasket-leak",)


def test_surrogates_of_labels_left_out_are_left_out(store: Path) -> None:
    (store / "surrogates.h5").write_bytes((store / "val.h5").read_bytes())
    train = open_split(store, "train")
    both, surrogates = with_surrogates(train, store, LabelsConfig(ignore="unclear"))
    assert (both.recordings, surrogates) == (16, 8)


def test_errors_name_the_store(store: Path) -> None:
    with pytest.raises(InputError, match=rf'^{store}: no label is called "burst"'):
        open_labelled(store, "train", LabelsConfig(leak="burst"))
