import io
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.config import SignalConfig
from leakdet.storage.writer import SplitWriter

SIGNAL = SignalConfig(
    sample_rate_hz=4000,
    window_samples=1000,
    window_hop_samples=500,
    segment_samples=200,
    segment_hop_samples=200,
    n_mels=12,
    fmax_hz=2000.0,
)


def mel_of(number: int) -> np.ndarray:
    return np.full((4, *SIGNAL.mel_shape), number, np.float16)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_mel_sound_and_checksums_are_written_without_what_was_removed(
    tmp_path: Path, planted: Any, compression: str
) -> None:
    writer = SplitWriter(tmp_path, "train", SIGNAL, "int16")
    for number in range(3):
        sound = np.full(10 + number, number, np.int16)
        row = planted("leak", number).row(number)
        writer.add(row, io.BytesIO(mel_of(number).tobytes()), io.BytesIO(sound.tobytes()))
    writer.remove("0001.wav")
    writer.write(tmp_path / "train.h5", ["leak", "other"], ["leak"], compression)
    assert [path.name for path in tmp_path.iterdir()] == ["train.h5"]
    with h5py.File(tmp_path / "train.h5") as file:
        assert file["recording_id"].asstr()[...].tolist() == ["0000.wav", "0002.wav"]
        assert np.array_equal(file["mel"][...], np.concatenate([mel_of(0), mel_of(2)]))
        assert file["recording_offsets"][...].tolist() == [0, 4, 8]
        assert file["waveform"][...].tolist() == [0] * 10 + [2] * 12
        assert file["waveform_offsets"][...].tolist() == [0, 10, 22]
        crc = [zlib.crc32(mel_of(number).tobytes()) for number in (0, 2)]
        assert file["mel_crc32"][...].tolist() == crc
        assert "window_start_s" not in file


def test_a_writer_that_is_discarded_leaves_nothing(tmp_path: Path, planted: Any) -> None:
    writer = SplitWriter(tmp_path, "train", SIGNAL)
    writer.add(planted("leak", 1).row(0), io.BytesIO(mel_of(1).tobytes()), None)
    writer.discard()
    assert list(tmp_path.iterdir()) == []
