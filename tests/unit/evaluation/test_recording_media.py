import io
from pathlib import Path

import h5py
import numpy as np
import pytest
import soundfile

from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream, window_starts
from leakdet.evaluation.recording_media import StoreMedia, window_starts_s
from leakdet.storage.opening import open_split


@pytest.fixture
def split(demo_store):
    return open_split(demo_store, "test")


def evidence_of(split):
    return StoreMedia(split, window_starts_s(split, split.numbers("duration_s", np.nan)))


def test_window_starts_are_those_that_the_store_was_cut_at(split):
    starts = window_starts_s(split, split.numbers("duration_s", np.nan))
    log_mel = LogMel(split.signal)
    streams = [MelStream(Path(path), log_mel) for path in split.texts("path")]
    cut_at = np.concatenate([block.window_start_s for stream in streams for block in stream])
    assert starts == pytest.approx(cut_at, abs=1e-4)


def test_the_picture_is_the_recording_in_time_order_without_repeats(split):
    mel = evidence_of(split).mel(0)
    signal = split.signal
    windows = split.mel.read(0, int(split.recording_offsets[1])).astype(np.float32)
    first = windows[0].transpose(0, 2, 1).reshape(-1, signal.n_mels).T
    assert mel.level_db[:, : first.shape[1]] == pytest.approx(first)
    assert mel.level_db.shape == (
        signal.n_mels,
        round(mel.duration_s / signal.window_s * first.shape[1]),
    )
    assert mel.band_hz is not None
    assert len(mel.band_hz) == len(mel.level_db)
    assert signal.fmin_hz < mel.band_hz[0] < mel.band_hz[-1] < signal.top_hz


def test_the_clip_is_the_recordings_own_sound(split):
    clip = evidence_of(split).clip(0, 0.0, 10.0)
    sound, rate_hz = soundfile.read(io.BytesIO(clip.content))
    original, _ = soundfile.read(str(split.texts("path")[0]))
    assert rate_hz == split.signal.sample_rate_hz
    assert sound == pytest.approx(original * 10 ** (clip.gain_db / 20), abs=1e-3)


def test_sound_that_is_gone_or_another_is_not_played(split, tmp_path: Path, monkeypatch):
    evidence = evidence_of(split)
    monkeypatch.setattr(split, "recording_ids", np.array(["gone"] * split.recordings))
    other = tmp_path / "other.wav"
    soundfile.write(other, np.zeros(16000), 16000)
    for path in (tmp_path / "gone.wav", other):
        monkeypatch.setattr(evidence, "_paths", np.array([str(path)] * split.recordings))
        assert evidence.clip(0, 0.0, 10.0) is None


def test_sound_kept_in_the_store_is_played_without_the_file(tmp_path: Path, write_sound):
    from leakdet.building.builder import build_store
    from leakdet.config import BuildConfig, LabelsConfig, SplitConfig

    for label in ("LEAK", "NOLEAK"):
        for index in range(3):
            write_sound(
                f"audio/{label}/{index}.wav", seconds=1.5, seed=index + 10 * (label == "LEAK")
            )
    build_store(
        BuildConfig(
            source=str(tmp_path / "audio"),
            out=str(tmp_path / "store"),
            split=SplitConfig(ratios=[1.0, 0.0, 0.0]),
            labels=LabelsConfig(leak="LEAK"),
            waveform="int16",
            verify="off",
        )
    )
    split = open_split(tmp_path / "store", "train")
    path = Path(str(split.texts("path")[2]))
    original, _ = soundfile.read(path)
    path.unlink()
    clip = evidence_of(split).clip(2, 0.0, 10.0)
    sound, _ = soundfile.read(io.BytesIO(clip.content))
    kept = len(sound)  # up to the end of the last window
    assert sound == pytest.approx(original[:kept] * 10 ** (clip.gain_db / 20), abs=2e-3)
    assert len(window_starts(len(original), split.signal)) == split.windows_per_recording[2]
    with h5py.File(split.files[0], "r+") as file:  # as a disk that fails
        file["waveform"][file["waveform_offsets"][2] + 5] += 1
    damaged = evidence_of(split)
    assert damaged.clip(2, 0.0, 10.0) is None
    assert damaged.clip(1, 0.0, 10.0) is not None
