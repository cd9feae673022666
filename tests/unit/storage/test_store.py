import io
import json
import multiprocessing
import pickle  # noqa: TID251  how worker processes get their split
from pathlib import Path

import h5py
import numpy as np
import pytest

from leakdet.config import SignalConfig
from leakdet.errors import InputError
from leakdet.storage.checking import check_apart
from leakdet.storage.store import open_split, split_files
from leakdet.storage.store_writer import RecordingRow, SplitWriter

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
    return np.random.default_rng(number).normal(-40, 10, (windows, *SIGNAL.mel_shape)).astype(np.float16)


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
        starts = np.arange(windows, dtype=np.float32) * 0.05
        writer.add(row(number, windows), starts, io.BytesIO(mel_of(number, windows).tobytes()), sound)
    writer.write(folder / f"{name}.h5", ["LEAK", "NOLEAK"], "LEAK", **how)
    return folder


@pytest.mark.parametrize("compression", ["none", "gzip", "lzf"])
def test_what_is_written_is_read(tmp_path: Path, compression: str):
    split = open_split(write(tmp_path, compression=compression), "train")
    assert split.recordings == 4
    assert split.windows == sum(LENGTHS)
    assert split.recording_offsets.tolist() == [0, 3, 4, 9, 11]
    assert split.recording_ids.tolist() == [f"r{n}.wav" for n in range(4)]
    assert split.groups["site"].tolist() == ["s0", "s0", "s1", "s1"]
    assert split.label_id.tolist() == [0, 1, 0, 1]
    assert split.signal == SIGNAL
    np.testing.assert_allclose(split.numbers("weight", 1.0), [1.0, 0.9, 0.8, 0.7], rtol=1e-6)
    expected = np.concatenate([mel_of(n, w) for n, w in enumerate(LENGTHS)])
    assert np.array_equal(split.mel.rows(0, 11), expected)
    assert np.array_equal(split.mel.rows(2, 5), expected[2:5])
    assert (split.mel.parts[0].mapped is None) == (compression != "none")
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".h5"]  # the spool is gone


def test_gather_keeps_order_and_duplicates(tmp_path: Path):
    for compression in ("none", "gzip"):
        split = open_split(write(tmp_path / compression, compression=compression), "train")
        index = np.array([5, 3, 3, 0, 10])
        assert np.array_equal(split.mel.gather(index), split.mel.rows(0, 11)[index])


def test_shards_are_one_split(tmp_path: Path):
    write(tmp_path, "train-00000-of-00002", range(2))
    with pytest.raises(InputError, match="1 of 2 train shards"):
        split_files(tmp_path, "train")
    write(tmp_path, "train-00001-of-00002", range(2, 4))
    split = open_split(tmp_path, "train")
    whole = open_split(write(tmp_path / "whole"), "train")
    assert split.recording_ids.tolist() == whole.recording_ids.tolist()
    assert split.recording_offsets.tolist() == whole.recording_offsets.tolist()
    assert np.array_equal(split.mel.rows(0, 11), whole.mel.rows(0, 11))
    assert np.array_equal(split.mel.rows(3, 6), whole.mel.rows(3, 6))
    index = np.array([10, 0, 3, 4, 3])
    assert np.array_equal(split.mel.gather(index), whole.mel.gather(index))
    write(tmp_path)
    with pytest.raises(InputError, match="holds both"):
        open_split(tmp_path, "train")


@pytest.mark.parametrize("without", [0, 1])
def test_a_group_column_that_one_file_lacks_is_blank_there(tmp_path: Path, without: int):
    """A shard that holds no recording with the column; older ones did not write it then."""
    for number in (0, 1):
        write(tmp_path, f"train-{number:05d}-of-00002", range(2 * number, 2 * number + 2))
        with h5py.File(tmp_path / f"train-{number:05d}-of-00002.h5", "r+") as file:
            file.attrs["group_by"] = json.dumps(["site"])
            if number == without:
                del file["group"]
    split = open_split(tmp_path, "train")
    assert split.groups["site"].tolist() == (["", "", "s1", "s1"] if without == 0 else ["s0", "s0", "", ""])
    check_apart([split])


def test_a_file_without_recordings_has_the_columns_of_its_split(tmp_path: Path):
    SplitWriter(tmp_path, "train", SIGNAL, columns=["site"]).write(
        tmp_path / "train.h5", ["LEAK", "NOLEAK"], "LEAK"
    )
    assert open_split(tmp_path, "train").groups["site"].tolist() == []


def test_a_recording_taken_out_again_is_not_written(tmp_path: Path):
    tmp_path.mkdir(exist_ok=True)
    writer = SplitWriter(tmp_path, "train", SIGNAL, "int16")
    for number, windows in enumerate(LENGTHS):
        sound = io.BytesIO(np.full(10 * windows, number, np.int16).tobytes())
        mel = io.BytesIO(mel_of(number, windows).tobytes())
        writer.add(row(number, windows), np.zeros(windows, np.float32), mel, sound)
    writer.remove("r1.wav")
    writer.write(tmp_path / "train.h5", ["LEAK", "NOLEAK"], "LEAK")
    split = open_split(tmp_path, "train")
    assert split.recording_ids.tolist() == ["r0.wav", "r2.wav", "r3.wav"]
    assert np.array_equal(split.mel.rows(3, 8), mel_of(2, 5))
    with h5py.File(tmp_path / "train.h5") as file:
        assert file["waveform"][...].tolist() == [0] * 30 + [2] * 50 + [3] * 20
        assert file["waveform_offsets"][...].tolist() == [0, 30, 80, 100]


def test_a_cut_off_file_is_named(tmp_path: Path):
    path = write(tmp_path) / "train.h5"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"train\.h5.*cut off"):
        open_split(tmp_path, "train")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.attrs.__setitem__("schema_version", 9), "schema_version is 9"),
        (lambda f: f["label_id"].__setitem__(2, 7), "label_id 7 of recording 2"),
        (lambda f: f["recording_offsets"].__setitem__(2, 3), "recording_offsets must rise"),
        (lambda f: f.attrs.__setitem__("signal", json.dumps({"n_mels": 8})), "lacks"),
    ],
)
def test_a_faulty_file_is_refused(tmp_path: Path, change, message: str):
    path = write(tmp_path) / "train.h5"
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(Exception, match=message) as caught:
        open_split(tmp_path, "train")
    assert "train.h5" in str(caught.value)


def test_no_such_split(tmp_path: Path):
    with pytest.raises(InputError, match=r"no val\.h5"):
        open_split(write(tmp_path), "val")


def _rows(split: bytes, start: int) -> bytes:
    return pickle.loads(split).mel.rows(start, start + 1).tobytes()


@pytest.mark.parametrize("how", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_other_processes_read_the_same_rows(tmp_path: Path, how: str):
    split = open_split(write(tmp_path), "train")
    here = [split.mel.rows(n, n + 1).tobytes() for n in range(11)]
    packed = pickle.dumps(split)
    assert len(packed) < 20_000  # where the bytes are, not the bytes
    with multiprocessing.get_context(how).Pool(2) as pool:
        assert pool.starmap(_rows, [(packed, n) for n in range(11)]) == here
