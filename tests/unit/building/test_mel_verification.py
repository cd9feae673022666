import io
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.building.mel_verification import verify_mel
from leakdet.config import SignalConfig
from leakdet.errors import InputError
from leakdet.storage.writer import RecordingRow, SplitWriter

SIGNAL = SignalConfig(2000, 400, 40, 100, 10, n_mels=8, fmin_hz=0.0, fmax_hz=1000.0)


def stored(folder: Path, audio: Path, mel: np.ndarray) -> Path:
    """A store in which the only recording of test has this mel."""
    folder.mkdir()
    name, path = audio.name, str(audio)
    row = RecordingRow(
        name, path, "LEAK", {}, 1.0, "0", 1.0, 2000, -20.0, 0.0, 0.0, (), len(mel), mel_crc32=0
    )
    writer = SplitWriter(folder, "test", SIGNAL)
    writer.add(row, io.BytesIO(mel.tobytes()), None)
    writer.write(folder / "test.h5", ["LEAK", "NORMAL"], ["LEAK"])
    return folder


def mel_of(audio: Path) -> np.ndarray:
    return torch.cat([block.mel for block in MelStream(audio, LogMel(SIGNAL))]).numpy()


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_a_long_recording_is_compared_in_little_memory(tmp_path: Path, write_sound, traced: None):
    audio = write_sound("long.wav", 300.0, 2000)
    mel = mel_of(audio)
    store = stored(tmp_path / "store", audio, mel)
    size = mel.nbytes
    del mel
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    verify_mel(store, store, LogMel(SIGNAL), full=True, workers=1)
    assert tracemalloc.get_traced_memory()[1] - before < size / 2


@pytest.mark.parametrize("windows", [-1, 1])
def test_a_window_too_few_or_too_many_is_found(tmp_path: Path, write_sound, windows: int):
    audio = write_sound("short.wav", 9.0, 2000)
    mel = mel_of(audio)
    wrong = mel[:-1] if windows < 0 else np.concatenate([mel, mel[-1:]])
    store = stored(tmp_path / "store", audio, wrong)
    with pytest.raises(InputError, match=r"short\.wav is not that of its audio \(off by inf dB\)"):
        verify_mel(store, store, LogMel(SIGNAL), full=True, workers=1)


@pytest.mark.parametrize(("wrong", "shown"), [(np.nan, "nan"), (0.0, r"\d+\.\d\d")])
def test_one_wrong_number_in_the_last_window_is_found(
    tmp_path: Path, write_sound, wrong: float, shown: str
):
    audio = write_sound("short.wav", 9.0, 2000)
    mel = mel_of(audio)
    mel[-1, -1, -1] = wrong
    store = stored(tmp_path / "store", audio, mel)
    with pytest.raises(InputError, match=rf"off by {shown} dB"):
        verify_mel(store, store, LogMel(SIGNAL), full=True, workers=1)
