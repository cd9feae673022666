from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.config import LabelsConfig
from leakdet.core.errors import InputError
from leakdet.loading.samples import SplitSamples
from leakdet.storage.hdf5 import open_h5, seal_h5
from leakdet.storage.integrity import check_contents
from leakdet.storage.opening import open_labelled, open_split
from leakdet.storage.store import StoreSplit, open_leakdet_split
from leakdet.storage.views import (
    SplitView,
    file_rows,
    keeping,
    labelled,
    no_sound_sentence,
    pooled,
    view_of,
    view_of_all,
)


@pytest.fixture
def bases(write_store: Any, planted: Any) -> list[StoreSplit]:
    train = [
        planted("leak", 1, windows=3, groups={"site": "a"}),
        planted("other", 2, windows=5, groups={"site": "b"}),
    ]
    val = [
        planted("other", 3, windows=2, groups={"site": "a", "pipe": "7"}),
        planted("leak", 4, groups={"site": "c"}),
    ]
    store = write_store(train=train, val=val)
    return [open_split(store, name) for name in ("train", "val")]


def test_a_pool_holds_every_recording_of_every_split(bases: list[StoreSplit]) -> None:
    view = pooled(bases)
    assert view.recordings == 4
    assert view.windows_per_recording.tolist() == [3, 5, 2, 4]
    assert (
        view.mel.read(0, 14) == np.concatenate([base.mel.read(0, base.windows) for base in bases])
    ).all()
    assert view.recording_ids.tolist() == ["0000.wav", "0001.wav", "0002.wav", "0003.wav"]
    assert view.groups["site"].tolist() == ["a", "b", "a", "c"]
    assert view.groups["pipe"].tolist() == ["", "", "7", ""]


def test_picked_recordings_keep_their_own_windows_labels_and_numbers(
    bases: list[StoreSplit],
) -> None:
    everything = pooled(bases)
    view = everything.take(np.array([3, 0, 1]), "fold").take(np.array([1, 0]), "again")
    assert view.name == "again"
    assert view.recording_ids.tolist() == ["0000.wav", "0003.wav"]
    assert view.label_id.tolist() == [0, 0]
    assert (view.mel.read(0, 3) == bases[0].mel.read(0, 3)).all()
    assert (view.mel.read(3, 7) == bases[1].mel.read(2, 6)).all()
    assert view.mel.shape == (7, *bases[0].mel.shape[1:])
    assert (view.mel.gather(np.array([6, 0, 0])) == view.mel.read(0, 7)[[6, 0, 0]]).all()
    levels = np.concatenate([base.numbers("rms_dbfs", 0.0) for base in bases])
    assert view.numbers("rms_dbfs", 0.0).tolist() == levels[[0, 3]].tolist()
    assert view.numbers("not_there", 1.0).tolist() == [1.0, 1.0]
    assert view.groups["site"].tolist() == ["a", "c"]


def test_the_places_of_a_view_lead_to_its_recordings(bases: list[StoreSplit]) -> None:
    view = pooled(bases).take(np.array([2, 1]), "some")
    found = []
    for path, row in file_rows(view):
        with open_h5(path) as file:
            found.append(file["recording_id"].asstr()[row])
    assert found == view.recording_ids.tolist()


def test_shuffled_labels_are_the_same_labels_and_survive_picking(bases: list[StoreSplit]) -> None:
    views: list[SplitView] = [pooled(bases).with_shuffled_labels(seed) for seed in range(6)]
    assert all(sorted(view.label_id) == [0, 0, 1, 1] for view in views)
    assert len({tuple(view.label_id) for view in views}) > 1
    for view in views:
        assert view.take(np.array([2, 0]), "x").label_id.tolist() == view.label_id[[2, 0]].tolist()


def test_splits_that_disagree_are_not_pooled(bases: list[StoreSplit], tmp_path: Path) -> None:
    bases[1].label_names = ["leak", "noise"]
    with pytest.raises(InputError, match=r"val\.h5: .*label_names .* train\.h5"):
        pooled(bases)


def test_dead_windows_are_left_out_and_recordings_of_nothing_else_named(
    write_store: Any, planted: Any
) -> None:
    alive = np.array([True, False, True])
    store = write_store(
        train=[
            planted("leak", 1, windows=3, live=alive),
            planted("other", 2, windows=2, live=np.zeros(2, bool)),
            planted("other", 3, windows=2, live=np.ones(2, bool)),
        ],
        val=[planted("leak", 4), planted("other", 5)],
    )
    stored, split = open_leakdet_split(store, "train"), open_split(store, "train")
    assert stored.live is not None
    assert stored.live.tolist() == [True, False, True, False, False, True, True]
    assert split.recording_ids.tolist() == ["0000.wav", "0002.wav"]
    assert split.without_sound == ["0001.wav"]
    assert split.windows_per_recording.tolist() == [2, 2]
    assert split.stored_windows.tolist() == [3, 2]
    assert split.window_numbers.tolist() == [0, 2, 0, 1]
    assert (split.read(0, 4) == stored.read(0, 7)[[0, 2, 5, 6]]).all()
    assert (split.read_stored(1) == stored.read(5, 7)).all()
    check_contents(split)
    val = open_split(store, "val")
    assert val.live is None  # a store that does not say it: all windows count
    assert val.windows == 8
    both = pooled([val, split])
    assert both.recording_ids.tolist() == ["0003.wav", "0004.wav", "0000.wav", "0002.wav"]
    assert both.without_sound == ["0001.wav"]
    again = both.take(np.array([3, 2]), "fold")
    assert again.without_sound == ["0001.wav"]
    assert (again.read(0, 4) == split.read(0, 4)[[2, 3, 0, 1]]).all()
    assert again.window_numbers.tolist() == [0, 1, 0, 2]


def test_a_pool_of_views_holds_what_they_pick(bases: list[StoreSplit]) -> None:
    view = pooled(bases).take(np.array([3, 1]), "some")
    both = pooled([bases[1], view])
    assert both.recording_ids.tolist() == ["0002.wav", "0003.wav", "0003.wav", "0001.wav"]
    expected = np.concatenate([bases[1].read(0, 6), view.read(0, 9)])
    assert (both.read(0, both.windows) == expected).all()


def test_a_split_of_silence_is_refused(write_store: Any, planted: Any) -> None:
    store = write_store(train=[planted("leak", 1, windows=2, live=np.zeros(2, bool))])
    with pytest.raises(InputError, match=r"no recording .*sound"):
        open_split(store, "train")


@pytest.fixture
def view(write_store, planted) -> SplitView:
    live = np.array([True, False, True, True])
    recordings = [planted("leak", 1, live=live), planted("other", 2, live=np.ones(4, bool))]
    return pooled([open_split(write_store(train=recordings), "train")])


def test_only_kept_windows_are_in_a_view_and_in_views_and_samples_of_it(view: SplitView) -> None:
    mel = view.mel.read(0, view.windows)
    mask = np.array([False, True, True, True, False, False, True])
    kept = keeping(view, mask)
    assert kept.windows_per_recording.tolist() == [2, 2]
    assert (kept.mel.read(0, 4) == mel[mask]).all()
    assert kept.window_numbers.tolist() == [2, 3, 0, 3]
    both = pooled([kept, view])
    assert both.windows_per_recording.tolist() == [2, 2, 3, 4]
    assert (both.mel.read(0, 11) == np.concatenate([mel[mask], mel])).all()
    samples = SplitSamples(kept.take(np.array([1]), "train"), np.array([0]), "window")
    assert len(samples) == 2
    assert (samples.read(0, 2).numpy() == mel[mask][2:]).all()
    copied = deepcopy(kept)
    assert (copied.take(np.array([0]), "x").mel.read(0, 2) == mel[mask][:2]).all()
    assert view.windows == 7


def test_a_recording_must_keep_a_window(view: SplitView) -> None:
    with pytest.raises(ValueError, match=r"0000.wav keeps no window"):
        keeping(view, np.arange(7) >= 3)


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


def test_errors_name_the_store(store: Path) -> None:
    with pytest.raises(InputError, match=rf'^{store}: no label .*"burst"'):
        open_labelled(store, "train", LabelsConfig(leak="burst"))
