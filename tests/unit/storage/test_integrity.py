from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.core.errors import InputError
from leakdet.storage.integrity import check_contents, check_recordings
from leakdet.storage.opening import open_split
from leakdet.storage.views import pooled


@pytest.mark.parametrize(("picked", "row"), [([3], 3), ([3, 0], 3), ([2, 1], 1), ([0, 2, 3], 2)])
def test_a_damaged_recording_of_a_fold_is_reported_in_its_own_file(
    write_store: Any, planted: Any, picked: list[int], row: int
) -> None:
    made = [planted("leak", number, windows=2 + number) for number in range(4)]
    store = write_store(train=made[:2], val=made[2:])
    name, at = ("train", [0, 2]) if row < 2 else ("val", [0, 4])
    with h5py.File(store / f"{name}.h5", "r+") as file:
        file["mel"][at[row % 2], 0, 0, 0] = 7
    view = pooled([open_split(store, split) for split in ("train", "val")]).take(
        np.array(picked), "fold"
    )
    with pytest.raises(InputError, match=rf"{name}\.h5: recording 000{row}\.wav is damaged"):
        check_contents(view)


def test_recordings_that_ailh_never_read_are_all_named(
    stores: SimpleNamespace, tmp_path: Path
) -> None:
    first_window_only = np.random.default_rng(9).normal(-60, 9, (4, 2, 8, 1))
    first_window_only[0] = 0
    train, val, _ = stores.ailh_splits(tmp_path, {"train": {2: 0, 7: -200, 9: first_window_only}})
    check_contents(val)
    message = (
        r"2 of 12 recordings of train .*constant mel, .*: TRAINING_DATASET#2, "
        r"TRAINING_DATASET#7\. .*"
        rf"leakdet build {tmp_path}"
    )
    with pytest.raises(InputError, match=message):
        check_contents(train)
    with pytest.raises(
        InputError, match=r"1 of 2 recordings of fold have .*: TRAINING_DATASET#7\."
    ):
        check_contents(pooled([train]).take(np.array([1, 7]), "fold"))
    check_recordings(train, 3, 5, train.read(12, 20))
    with pytest.raises(InputError, match="TRAINING_DATASET#7"):
        check_recordings(train, 6, 8, train.read(24, 32))


def test_a_silent_recording_of_our_own_is_no_fault(
    write_store: Any, planted: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(planted, "mel", lambda self: np.full((4, 5, 12, 1), -100, np.float16))
    check_contents(open_split(write_store(train=[planted("leak", 1)]), "train"))
