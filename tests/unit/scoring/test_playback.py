import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from leakdet.acoustics.clip import PICTURE_WINDOWS
from leakdet.acoustics.mel import LogMel
from leakdet.scoring import playback
from leakdet.scoring.detector import load_detector
from leakdet.scoring.playback import Player
from leakdet.scoring.score_recording import score_recording


@pytest.fixture
def detector(example_files):
    return load_detector(example_files.model, device="cpu").mel_detector


@pytest.fixture
def player(detector, monkeypatch: pytest.MonkeyPatch) -> Player:
    monkeypatch.setattr(playback, "CLIP_S", 2.0)
    return Player(detector, 1)


def test_a_recording_is_scored_drawn_and_cut_as_it_was(detector, player, write_sound) -> None:
    path = write_sound("a.wav", seconds=6.0)
    heard = player.play(path)
    verdict = score_recording(path, detector, LogMel(detector.signal))
    assert heard.window_prob.tolist() == [window.leak_prob for window in verdict.windows]
    assert (heard.duration_s, heard.mel.duration_s) == (verdict.duration_s, pytest.approx(6.0))
    highest = max(verdict.windows, key=lambda window: window.leak_prob)
    assert heard.clip.start_s <= highest.start_s + 0.01
    assert highest.start_s < heard.clip.start_s + heard.clip.duration_s
    assert heard.clip.duration_s == pytest.approx(2.0)
    sound, rate_hz = soundfile.read(io.BytesIO(heard.clip.content))
    assert (rate_hz, len(sound)) == (detector.signal.sample_rate_hz, 2 * rate_hz)


def test_of_a_long_recording_the_beginning_is_drawn(detector, player, write_sound) -> None:
    hop_s = detector.signal.window_hop_samples / detector.signal.sample_rate_hz
    heard = player.play(write_sound("a.wav", seconds=(PICTURE_WINDOWS + 50) * hop_s))
    drawn_s = (PICTURE_WINDOWS - 1) * hop_s + detector.signal.window_s
    assert heard.mel.duration_s == pytest.approx(drawn_s)
    assert len(heard.window_prob) > PICTURE_WINDOWS


def test_clips_of_many_recordings_are_shorter(detector, write_sound) -> None:
    path = write_sound("a.wav", seconds=12.0)
    clips = [Player(detector, count).play(path) for count in (24, 60)]
    assert [clip.clip.duration_s if clip else None for clip in clips] == [10.0, 4.0]


@pytest.mark.parametrize("seconds", [0.1, 1.3])
def test_the_clip_of_a_shorter_recording_is_all_of_it(detector, write_sound, seconds) -> None:
    heard = Player(detector, 1).play(write_sound("a.wav", seconds=seconds))
    assert (heard.clip.start_s, heard.clip.duration_s) == (0.0, pytest.approx(seconds, abs=0.01))


def test_the_clip_is_that_piece_of_the_file(detector, player, write_sound) -> None:
    rate_hz = detector.signal.sample_rate_hz
    ramp = np.linspace(0.0, 0.9, 8 * rate_hz)  # its level says where a piece comes from
    clip = player.play(write_sound("ramp.wav", rate_hz=rate_hz, samples=ramp)).clip
    sound, _ = soundfile.read(io.BytesIO(clip.content))
    level = sound[rate_hz] / 10 ** (clip.gain_db / 20)
    assert level == pytest.approx(0.9 * (clip.start_s + 1.0) / 8, abs=0.01)


def test_what_can_no_longer_be_read_is_a_warning(player, tmp_path: Path, messages) -> None:
    assert player.play(tmp_path / "gone.wav") is None
    assert "gone.wav: no picture" in messages.text
