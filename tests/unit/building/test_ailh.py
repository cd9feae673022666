import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest

from leakdet.building.ailh import convert_store
from leakdet.config import BuildConfig, SignalConfig
from leakdet.core.errors import InputError
from leakdet.storage.ailh import FILES
from leakdet.storage.integrity import check_contents
from leakdet.storage.opening import open_split

CONFIG = {
    "sample_rate": 4096, "duration_sec": 2.0, "long_window": 1024, "short_window": 512,
    "n_mels": 16, "n_fft": 512, "hop_length": 512, "power": 1.0, "center": False,
}  # fmt: skip
NAMES = ["CRACK", "LEAK", "NORMAL"]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Six recordings a split; train's row 2 is all zero, test's row 0 is train's row 1."""
    folder = tmp_path / "old"
    folder.mkdir()
    for number, name in enumerate(("train", "val", "test")):
        mel = np.random.default_rng(number).normal(-60, 9, (6, 8, 2, 16, 1)).astype(np.float16)
        if name == "train":
            mel[2] = 0
            copied = mel[1].copy()
        if name == "test":
            mel[0] = copied
        with h5py.File(folder / FILES[name], "w") as file:
            file["segments_mel"] = mel
            file["labels"] = (
                np.array([0, 1, 2, 1, 2, 0], np.int16)
                if name != "test"
                else np.array([1, 1, 2, 1, 2, 0])
            )
            file.attrs["labels_json"] = json.dumps(NAMES)
            file.attrs["config_json"] = json.dumps(CONFIG)
    return folder


def test_converting_keeps_every_bit_and_leaves_out_what_was_never_read(
    old: Path, tmp_path: Path
) -> None:
    report = convert_store(BuildConfig(source=str(old), out=str(tmp_path / "new")))
    before, after = open_split(old, "train"), open_split(tmp_path / "new", "train")
    kept = [0, 1, 3, 4, 5]
    assert after.recording_ids.tolist() == [f"TRAINING_DATASET#{row}" for row in kept]
    assert after.label_id.tolist() == before.label_id[kept].tolist()
    assert after.label_names == NAMES
    assert after.signal == before.signal
    for new, row in enumerate(kept):
        assert np.array_equal(
            after.mel.read(new * 8, new * 8 + 8), before.mel.read(row * 8, row * 8 + 8)
        )
    reasons = {item.path: item.reason for item in report.left_out}
    assert "never read" in reasons["TRAINING_DATASET#2"]
    assert "same sound as TRAINING_DATASET#1" in reasons["TESTING_DATASET#0"]
    assert len(reasons) == 2


def test_files_that_do_not_say_how_their_mel_was_made_need_a_fitting_signal(
    old: Path, tmp_path: Path
) -> None:
    for name in FILES.values():
        with h5py.File(old / name, "r+") as file:
            del file.attrs["config_json"]
    with pytest.raises(InputError, match=r"config_json.*signal=ailh"):
        convert_store(BuildConfig(source=str(old), out=str(tmp_path / "new")))
    assert not (tmp_path / "new").exists()
    signal = SignalConfig(
        4096, 1024, 1024, 512, 512, n_mels=16, fmin_hz=0.0, fmax_hz=2048.0, floor=1e-10
    )
    convert_store(BuildConfig(source=str(old), out=str(tmp_path / "new"), signal=signal))
    assert open_split(tmp_path / "new", "val").signal == signal


def test_what_is_not_finite_is_left_out_and_the_new_store_is_whole(
    old: Path, tmp_path: Path, door
) -> None:
    for name, row, value in (("train", 3, np.nan), ("val", 1, -np.inf)):
        with h5py.File(old / FILES[name], "r+") as file:
            file["segments_mel"][row, 5, 1, 2, 0] = value
    done = door("build", f"source={old}", f"out={tmp_path / 'new'}", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert re.search("TRAINING_DATASET#3: .*NaN", done.stdout)
    assert re.search("VALIDATION_DATASET#1: .*NaN", done.stdout)
    for name, recordings in (("train", 4), ("val", 5), ("test", 5)):
        split = open_split(tmp_path / "new", name)
        check_contents(split)
        assert split.recordings == recordings
