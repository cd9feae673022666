import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from leakdet.acoustics.mel import LogMel
from leakdet.core.errors import InputError
from leakdet.scoring.detector import load_detector
from leakdet.scoring.playback import PICTURE_WINDOWS, playback
from leakdet.scoring.score_recording import score_recording


@pytest.fixture
def scorer(example_files):
    detector = load_detector(example_files.model, device="cpu").mel_detector
    return detector, LogMel(detector.signal)


def test_a_recording_is_scored_drawn_and_cut_as_it_was(scorer, write_sound) -> None:
    detector, log_mel = scorer
    path = write_sound("a.wav", seconds=6.0)
    heard = playback(path, 0, detector, log_mel, 2.0)
    assert heard.verdict == score_recording(path, detector, log_mel)
    assert len(heard.mel) == len(heard.window_start_s) == len(heard.verdict.windows)
    highest = max(heard.verdict.windows, key=lambda window: window.leak_prob)
    assert heard.clip.start_s <= highest.start_s + 0.01
    assert highest.start_s < heard.clip.start_s + heard.clip.duration_s
    assert heard.clip.duration_s == pytest.approx(2.0)
    sound, rate_hz = soundfile.read(io.BytesIO(heard.clip.content))
    assert (rate_hz, len(sound)) == (log_mel.signal.sample_rate_hz, 2 * rate_hz)


def test_of_a_long_recording_the_beginning_is_drawn(scorer, write_sound) -> None:
    detector, log_mel = scorer
    signal = log_mel.signal
    seconds = (PICTURE_WINDOWS + 50) * signal.window_hop_samples / signal.sample_rate_hz
    heard = playback(write_sound("a.wav", seconds=seconds), 0, detector, log_mel, 1.0)
    assert len(heard.mel) == len(heard.window_start_s) == PICTURE_WINDOWS
    assert len(heard.verdict.windows) > PICTURE_WINDOWS


@pytest.mark.parametrize("seconds", [0.1, 1.3])
def test_the_clip_of_a_shorter_recording_is_all_of_it(scorer, write_sound, seconds: float) -> None:
    heard = playback(write_sound("a.wav", seconds=seconds), 0, *scorer, 10.0)
    assert (heard.clip.start_s, heard.clip.duration_s) == (0.0, pytest.approx(seconds, abs=0.01))


def test_the_clip_is_that_piece_of_the_file(scorer, write_sound) -> None:
    detector, log_mel = scorer
    detector = replace(detector)
    rate_hz = log_mel.signal.sample_rate_hz
    ramp = np.linspace(0.0, 0.9, 8 * rate_hz)  # its level says where a piece comes from
    path = write_sound("ramp.wav", rate_hz=rate_hz, samples=ramp)
    clip = playback(path, 0, detector, log_mel, 2.0).clip
    sound, _ = soundfile.read(io.BytesIO(clip.content))
    level = sound[rate_hz] / 10 ** (clip.gain_db / 20)
    assert level == pytest.approx(0.9 * (clip.start_s + 1.0) / 8, abs=0.01)


def test_what_can_no_longer_be_read_is_an_error(scorer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"No such file|no such file"):
        playback(tmp_path / "gone.wav", 0, *scorer, 1.0)
