import io
import json
import multiprocessing
import pickle  # noqa: TID251  how worker processes get their split
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.config import SignalConfig
from leakdet.core.errors import InputError, LeakdetError
from leakdet.storage.hdf5 import seal_h5
from leakdet.storage.overlap import check_no_overlap
from leakdet.storage.store import (
    StoreIdentity,
    check_layout,
    check_values,
    open_leakdet_split,
    read_attributes,
    split_files,
)
from leakdet.storage.writer import PAGE_BYTES, RecordingRow, SplitWriter


@pytest.fixture
def path(write_store: Any, planted: Any) -> Path:
    return write_store(train=[planted("leak", 1), planted("other", 2)]) / "train.h5"


def test_a_whole_file_passes_and_gives_its_attributes(path: Path) -> None:
    with h5py.File(path, "r") as file:
        check_layout(path, file)
        signal, names, leak = read_attributes(path, file)
        offsets = file["recording_offsets"][...].astype(np.int64)
        check_values(path, file, offsets, np.array([0, 1]), names, signal)
    assert (names, leak, signal.mel_shape) == (["leak", "other"], ["leak"], (5, 12, 1))


@pytest.mark.parametrize("name", ["mel", "label_id", "recording_id"])
def test_a_missing_data_set_is_named(path: Path, name: str) -> None:
    with h5py.File(path, "r+") as file:
        del file[name]
        with pytest.raises(InputError, match=rf"train\.h5: lacks {name}; it has .*Build the store"):
            check_layout(path, file)


@pytest.mark.parametrize(
    ("offsets", "label_id", "message"),
    [
        ([0, 4, 4], [0, 1], r"recording 0001\.wav they go from 4 to 4"),
        ([0, 4, 7], [0, 1], "all recordings together they go from 0 to 7"),
        ([0, 4, 8], [0, 2], r"label_id 2 of recording 0001\.wav .*0 to 1"),
    ],
)
def test_values_that_disagree_are_named_with_the_recording(
    path: Path, offsets: list[int], label_id: list[int], message: str
) -> None:
    with h5py.File(path, "r") as file:
        signal, names, _ = read_attributes(path, file)
        with pytest.raises(InputError, match=message):
            check_values(path, file, np.array(offsets), np.array(label_id), names, signal)


def test_a_store_that_stays_the_same(tmp_path: Path):
    for name in ("train.h5", "TEST.H5", "build.json"):
        (tmp_path / name).write_text(name)
    identity = StoreIdentity.of(tmp_path)
    (tmp_path / "build.json").write_text("a note")
    identity.check("")
    assert sorted(identity.files) == ["TEST.H5", "train.h5"]


@pytest.mark.parametrize("change", ["rebuilt", "changed", "removed"])
def test_a_store_that_is_another_one_now(tmp_path: Path, change: str):
    store = tmp_path / "store"
    store.mkdir()
    (store / "train.h5").write_text("old")
    identity = StoreIdentity.of(store)
    if change == "changed":
        (store / "train.h5").write_text("longer")
    else:
        store.rename(tmp_path / "old")
        if change == "rebuilt":
            shutil.copytree(tmp_path / "old", store)
    with pytest.raises(InputError, match=r"\(train\.h5\).*The weights are safe"):
        identity.check("The weights are safe.")


SIGNAL = SignalConfig(2000, 200, 100, 50, 25, n_mels=8, fmin_hz=0.0)
LENGTHS = [3, 1, 5, 2]


def row(number: int, windows: int, **changes: object) -> RecordingRow:
    values = {
        "recording_id": f"r{number}.wav", "path": f"/x/r{number}.wav", "label": ["LEAK", "NOLEAK"][number % 2],
        "groups": {"site": f"s{number // 2}"}, "weight": 1.0 - number / 10, "content_sha256": f"{number:064x}",
        "duration_s": 1.5 * windows, "source_rate_hz": 2000, "rms_dbfs": -20.0 - number, "dc_offset": 0.0,
        "clipped_fraction": 0.0, "flags": ["short"] if windows == 1 else [], "windows": windows, "mel_crc32": 0,
    }  # fmt: skip
    return RecordingRow(**{**values, **changes})


def mel_of(number: int, windows: int) -> np.ndarray:
    return (
        np.random.default_rng(number)
        .normal(-40, 10, (windows, *SIGNAL.mel_shape))
        .astype(np.float16)
    )


def write(folder: Path, name: str = "train", numbers: range = range(4), **how: str) -> Path:
    folder.mkdir(exist_ok=True)
    writer = SplitWriter(folder, name.split("-")[0], SIGNAL, how.pop("waveform", "none"))
    for number in numbers:
        windows = LENGTHS[number]
        sound = (
            io.BytesIO(np.full(windows * 100, number, np.int16).tobytes())
            if writer.waveform != "none"
            else None
        )
        writer.add(row(number, windows), io.BytesIO(mel_of(number, windows).tobytes()), sound)
    writer.write(folder / f"{name}.h5", ["LEAK", "NOLEAK"], ["LEAK"], **how)
    return folder


@pytest.mark.parametrize("compression", ["none", "gzip", "lzf"])
def test_what_is_written_is_read(tmp_path: Path, compression: str):
    split = open_leakdet_split(write(tmp_path, compression=compression), "train")
    assert split.recordings == 4
    assert split.windows == sum(LENGTHS)
    assert split.recording_offsets.tolist() == [0, 3, 4, 9, 11]
    assert split.recording_ids.tolist() == [f"r{n}.wav" for n in range(4)]
    assert split.groups["site"].tolist() == ["s0", "s0", "s1", "s1"]
    assert split.label_id.tolist() == [0, 1, 0, 1]
    assert split.signal == SIGNAL
    np.testing.assert_allclose(split.numbers("weight", 1.0), [1.0, 0.9, 0.8, 0.7], rtol=1e-6)
    expected = np.concatenate([mel_of(n, w) for n, w in enumerate(LENGTHS)])
    assert np.array_equal(split.mel.read(0, 11), expected)
    assert np.array_equal(split.mel.read(2, 5), expected[2:5])
    assert (split.mel.parts[0].mapped is None) == (compression != "none")
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".h5"]  # the spool is gone


def test_mel_begins_at_a_page_of_the_file(tmp_path: Path):
    """All but what is smaller than one."""
    windows = 50
    writer = SplitWriter(tmp_path, "train", SIGNAL)
    mel = mel_of(0, windows)
    writer.add(row(0, windows), io.BytesIO(mel.tobytes()), None)
    writer.write(tmp_path / "train.h5", ["LEAK", "NOLEAK"], "LEAK")
    split = open_leakdet_split(tmp_path, "train")
    assert split.mel.parts[0].offset % PAGE_BYTES == 0
    assert np.array_equal(split.mel.mapped, mel)


def test_gather_keeps_order_and_duplicates(tmp_path: Path):
    for compression in ("none", "gzip"):
        split = open_leakdet_split(write(tmp_path / compression, compression=compression), "train")
        index = np.array([5, 3, 3, 0, 10])
        assert np.array_equal(split.mel.gather(index), split.mel.read(0, 11)[index])


def test_shards_are_one_split(tmp_path: Path):
    write(tmp_path, "train-00000-of-00002", range(2))
    with pytest.raises(InputError, match="1 of 2 train shards"):
        split_files(tmp_path, "train")
    write(tmp_path, "train-00001-of-00002", range(2, 4))
    split = open_leakdet_split(tmp_path, "train")
    whole = open_leakdet_split(write(tmp_path / "whole"), "train")
    assert split.recording_ids.tolist() == whole.recording_ids.tolist()
    assert split.recording_offsets.tolist() == whole.recording_offsets.tolist()
    assert np.array_equal(split.mel.read(0, 11), whole.mel.read(0, 11))
    assert np.array_equal(split.mel.read(3, 6), whole.mel.read(3, 6))
    index = np.array([10, 0, 3, 4, 3])
    assert np.array_equal(split.mel.gather(index), whole.mel.gather(index))
    write(tmp_path)
    with pytest.raises(InputError, match="holds both"):
        open_leakdet_split(tmp_path, "train")


@pytest.mark.parametrize("without", [0, 1])
def test_a_group_column_that_one_file_lacks_is_blank_there(tmp_path: Path, without: int):
    """A shard of another tool, which holds no recording with the column."""
    for number in (0, 1):
        write(tmp_path, f"train-{number:05d}-of-00002", range(2 * number, 2 * number + 2))
        file_path = tmp_path / f"train-{number:05d}-of-00002.h5"
        with h5py.File(file_path, "r+") as file:
            file.attrs["group_by"] = json.dumps(["site"])
            if number == without:
                del file["group"]
        seal_h5(file_path)
    split = open_leakdet_split(tmp_path, "train")
    assert split.groups["site"].tolist() == (
        ["", "", "s1", "s1"] if without == 0 else ["s0", "s0", "", ""]
    )
    check_no_overlap([split])


def test_a_file_without_recordings_has_the_columns_of_its_split(tmp_path: Path):
    SplitWriter(tmp_path, "train", SIGNAL, columns=["site"]).write(
        tmp_path / "train.h5", ["LEAK", "NOLEAK"], "LEAK"
    )
    assert open_leakdet_split(tmp_path, "train").groups["site"].tolist() == []


def test_a_recording_taken_out_again_is_not_written(tmp_path: Path):
    tmp_path.mkdir(exist_ok=True)
    writer = SplitWriter(tmp_path, "train", SIGNAL, "int16")
    for number, windows in enumerate(LENGTHS):
        sound = io.BytesIO(np.full(10 * windows, number, np.int16).tobytes())
        mel = io.BytesIO(mel_of(number, windows).tobytes())
        writer.add(row(number, windows), mel, sound)
    writer.remove("r1.wav")
    writer.write(tmp_path / "train.h5", ["LEAK", "NOLEAK"], "LEAK")
    split = open_leakdet_split(tmp_path, "train")
    assert split.recording_ids.tolist() == ["r0.wav", "r2.wav", "r3.wav"]
    assert np.array_equal(split.mel.read(3, 8), mel_of(2, 5))
    with h5py.File(tmp_path / "train.h5") as file:
        assert file["waveform"][...].tolist() == [0] * 30 + [2] * 50 + [3] * 20
        assert file["waveform_offsets"][...].tolist() == [0, 30, 80, 100]


def test_a_cut_off_file_is_named(tmp_path: Path):
    path = write(tmp_path) / "train.h5"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"train\.h5.*cut off"):
        open_leakdet_split(tmp_path, "train")


def _exchange(
    name: str, change: Callable[[np.ndarray], Any], **how: Any
) -> Callable[[h5py.File], None]:
    """Puts `change` of a data set in its place."""

    def exchanged(file: h5py.File) -> None:
        values = file[name][...]
        del file[name]
        file.create_dataset(name, data=change(values), **how)

    return exchanged


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.attrs.__setitem__("schema_version", 9), r"schema_version is 9, .* 1\. Build"),
        (lambda f: f["label_id"].__setitem__(2, 7), r"label_id 7 of recording r2\.wav .* 0 to 1\. Build"),
        (lambda f: f["recording_offsets"].__setitem__(2, 3), r"rise .* 11 windows .* r1\.wav .* 3 to 3\. Build"),
        (lambda f: f["recording_offsets"].__setitem__(4, 12), r"rise .* all recordings .* 0 to 12\. Build"),
        (lambda f: f.attrs.__setitem__("signal", json.dumps({"n_mels": 8})), "lacks"),
        (lambda f: f.attrs.__setitem__("signal", "{"), r"attribute signal is '\{'; .*JSON object\. Build"),
        (lambda f: f.attrs.__setitem__("label_names", "7"), r"attribute label_names is '7'; .*JSON list\. Build"),
        (lambda f: f.attrs.__delitem__("leak_labels"), r"lacks .*leak_labels; .*mel.*Build"),
        (lambda f: f.__delitem__("recording_id"), r"lacks recording_id; .*label_id.*Build"),
        (lambda f: f.__delitem__("mel"), r"lacks mel; it has"),
        (_exchange("mel", lambda mel: mel.astype(np.float32)), r"mel is float32 \[11, 7, 8, 1\]; .*float16 .*Build"),
        (_exchange("mel", lambda mel: mel.astype(">f2")), r"mel is >f2 .*float16"),
        (_exchange("mel", lambda mel: mel[:, 0]), r"mel is float16 \[11, 8, 1\]; .*float16 \[windows, segments"),
        (_exchange("mel", lambda mel: mel[:, :2]), r"mel is \(2, 8, 1\) .*signal .*\(7, 8, 1\)\. Build"),
        (_exchange("label_id", lambda ids: ids[:3]), r"label_id is \[3\], recording_offsets .*4 .*Build"),
        (_exchange("label_id", lambda ids: ids + 0.5), r"label_id is float64 \[4\]; .*whole numbers"),
        (_exchange("recording_offsets", lambda offsets: offsets[:0]), r"recording_offsets is int64 \[0\]; .*whole"),
        (_exchange("recording_id", lambda ids: ids[:3], dtype=h5py.string_dtype()), r"recording_id is \[3\], "),
        (_exchange("recording_id", lambda ids: np.arange(4)), r"recording_id is int64 \[4\]; .*texts"),
        (_exchange("weight", lambda weight: weight[1:]), r"weight is \[3\], "),
        (_exchange("group/site", lambda sites: sites[1:], dtype=h5py.string_dtype()), r"group/site is \[3\], "),
    ],
)  # fmt: skip
def test_a_faulty_file_is_refused_with_the_way_out(
    tmp_path: Path, change: Callable[[h5py.File], None], message: str
):
    path = write(tmp_path) / "train.h5"
    with h5py.File(path, "r+") as file:
        change(file)
    seal_h5(path)
    with pytest.raises(LeakdetError, match=message) as caught:
        open_leakdet_split(tmp_path, "train")
    assert str(path) in str(caught.value)


def test_shards_that_lack_what_others_have_are_refused(tmp_path: Path):
    write(tmp_path, "train-00000-of-00002", range(2))
    write(tmp_path, "train-00001-of-00002", range(2, 4))
    with h5py.File(tmp_path / "train-00001-of-00002.h5", "r+") as file:
        del file["weight"]
    seal_h5(tmp_path / "train-00001-of-00002.h5")
    with pytest.raises(
        InputError, match=r"00001-of-00002\.h5: differs from .*00000.* in columns; .*Build the"
    ):
        open_leakdet_split(tmp_path, "train")


def test_no_such_split(tmp_path: Path):
    with pytest.raises(InputError, match=r"no val\.h5\. Build"):
        open_leakdet_split(write(tmp_path), "val")


def _rows(split: bytes, start: int) -> bytes:
    return pickle.loads(split).mel.read(start, start + 1).tobytes()


@pytest.mark.parametrize("how", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_other_processes_read_the_same_rows(tmp_path: Path, how: str):
    split = open_leakdet_split(write(tmp_path), "train")
    here = [split.mel.read(n, n + 1).tobytes() for n in range(11)]
    packed = pickle.dumps(split)
    assert len(packed) < 20_000  # where the bytes are, not the bytes
    with multiprocessing.get_context(how).Pool(2) as pool:
        assert pool.starmap(_rows, [(packed, n) for n in range(11)]) == here
