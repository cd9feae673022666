import json
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.core.errors import InputError
from leakdet.storage.ailh import open_ailh_split
from leakdet.storage.opening import open_labelled, open_split, split_names

FIVE = ["BACKGROUND", "CRACK", "LEAK", "NORMAL", "UNCLASSIFIED"]
CONFIG = {
    "sample_rate": 4096, "duration_sec": 2.0, "long_window": 1024, "short_window": 512, "n_mels": 16, "n_fft": 512,
    "hop_length": 512, "power": 1.0, "center": False,
}  # fmt: skip


def write(
    folder: Path,
    labels: Any,
    names: list[str] = FIVE,
    axes: int = 5,
    config: dict[str, Any] | None = None,
    **how: Any,
) -> np.ndarray:
    labels = np.asarray(labels)
    mel = np.random.default_rng(0).normal(-60, 9, (len(labels), 8, 2, 16, 1)).astype(np.float16)
    with h5py.File(folder / "TRAINING_DATASET.H5", "w") as file:
        file.create_dataset("segments_mel", data=mel[:, :, :, None] if axes == 6 else mel, **how)
        file["labels"] = labels if labels.dtype.kind != "U" else labels.astype(object)
        file.attrs["labels_json"] = json.dumps(names)
        if config is not None:
            file.attrs["config_json"] = json.dumps(config)
    return mel


@pytest.mark.parametrize("axes", [5, 6])
@pytest.mark.parametrize("how", [{}, {"chunks": True}, {"compression": "gzip"}])
def test_it_reads_like_a_store(tmp_path: Path, axes: int, how: dict[str, Any]):
    mel = write(tmp_path, np.array([2, 0, 3], np.int16), axes=axes, config=CONFIG, **how)
    split = open_ailh_split(tmp_path, "train")
    assert split.mel.shape == (24, 2, 16, 1)
    assert split.recording_offsets.tolist() == [0, 8, 16, 24]
    assert np.array_equal(split.mel.read(0, 24), mel.reshape(24, 2, 16, 1))
    assert np.array_equal(split.mel.read(7, 18), mel.reshape(24, 2, 16, 1)[7:18])
    assert np.array_equal(
        split.mel.gather(np.array([23, 0, 9, 9])), mel.reshape(24, 2, 16, 1)[[23, 0, 9, 9]]
    )
    assert split.recording_ids.tolist() == [f"TRAINING_DATASET#{n}" for n in range(3)]
    assert split.groups == {}
    assert split.numbers("weight", 1.0).tolist() == [1.0, 1.0, 1.0]
    assert open_labelled(tmp_path, "train").leak_labels == ["LEAK"]
    assert split_names(tmp_path) == ["train"]
    assert (split.mel.parts[0].mapped is None) == bool(how)


@pytest.mark.parametrize(
    "stored",
    [
        np.array([1, 0, 1], np.int16),
        np.array([True, False, True]),
        np.array(["NOLEAK", "LEAK", "NOLEAK"]),
        np.array([b"NOLEAK", b"LEAK", b"NOLEAK"]),
        np.array([b"noleak", b"leak", b"NoLeak"], dtype="S8"),
    ],
    ids=["ints", "bools", "texts", "bytes", "any case"],
)
def test_labels_of_every_kind_are_the_same(tmp_path: Path, stored: np.ndarray):
    write(tmp_path, stored, ["LEAK", "NOLEAK"])
    assert open_split(tmp_path, "train").label_id.tolist() == [1, 0, 1]


@pytest.mark.parametrize("stored", [np.array([0, 9], np.int16), np.array(["LEAK", "WHAT"])])
def test_labels_outside_the_vocabulary_are_listed(tmp_path: Path, stored: np.ndarray):
    write(tmp_path, stored, ["LEAK", "NOLEAK"])
    with pytest.raises(InputError, match=r"labels \['(9|WHAT)'\] .*vocabulary"):
        open_ailh_split(tmp_path, "train")


@pytest.mark.parametrize(
    ("changes", "hops"),
    # 8 windows: without overlap, or with half
    [({}, (1024, 512)), ({"duration_sec": 1.125}, (512, 512))],
)
def test_its_signal_is_recovered(tmp_path: Path, changes: dict[str, float], hops: tuple[int, int]):
    write(tmp_path, np.array([0, 2]), config=CONFIG | changes)
    signal = open_ailh_split(tmp_path, "train").signal
    assert signal is not None
    assert (signal.window_hop_samples, signal.segment_hop_samples) == hops
    assert signal.mel_shape == (2, 16, 1)
    assert signal.floor == 1e-10


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (None, "has no config_json"),
        (CONFIG | {"center": True}, "power or centring"),
        (CONFIG | {"n_mels": 32}, "config_json gives"),
        (CONFIG | {"duration_sec": 9}, "describe its mel"),
        ({"sample_rate": 4096}, "describe its mel"),
    ],
)
def test_an_unknown_signal_is_unknown_not_guessed(
    tmp_path: Path, config: dict[str, Any] | None, reason: str
):
    write(tmp_path, np.array([0, 2]), config=config)
    split = open_ailh_split(tmp_path, "train")
    assert split.signal is None
    assert reason in str(split.signal_unknown)


def test_faulty_files_are_named(tmp_path: Path):
    write(tmp_path, np.array([0, 2]))
    path = tmp_path / "TRAINING_DATASET.H5"
    with pytest.raises(InputError, match=r"no val split; .*train"):
        open_split(tmp_path, "val")
    with h5py.File(path, "r+") as file:
        del file["labels"]
    with pytest.raises(InputError, match=r"TRAINING_DATASET\.H5: lacks .*labels"):
        open_split(tmp_path, "train")
    write(tmp_path, np.array([0, 2]))
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(InputError, match=r"TRAINING_DATASET\.H5"):
        open_split(tmp_path, "train")


@pytest.mark.parametrize(("rows", "slow"), [(None, False), (1, False), (300, True)])
def test_large_chunks_are_named_with_the_way_out(tmp_path: Path, rows: int | None, slow: bool):
    """A random window of a chunk that was laid out for writing costs the whole chunk."""
    write(
        tmp_path,
        np.arange(3000) % 5,
        **({} if rows is None else {"chunks": (rows * 10, 8, 2, 16, 1)}),
    )
    found = open_ailh_split(tmp_path, "train").mel.slow_chunks
    assert (found is not None) == slow
    if found is not None:
        assert re.search(r"TRAINING_DATASET\.H5: .*chunk .*24000 windows \(1\.5 MB\)", found)
        assert "leakdet build" in found
