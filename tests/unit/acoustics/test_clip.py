import io

import numpy as np
import pytest
import soundfile

from leakdet.acoustics.clip import PEAK, make_clip

RATE_HZ = 8000


def decoded(clip):
    return soundfile.read(io.BytesIO(clip.content))


def test_a_clip_is_the_same_sound_louder():
    sound = (0.01 * np.sin(2 * np.pi * 440 * np.arange(RATE_HZ) / RATE_HZ)).astype(np.float32)
    clip = make_clip(sound, RATE_HZ, 0.0, 10.0)
    played, rate_hz = decoded(clip)
    assert rate_hz == RATE_HZ
    assert played == pytest.approx(sound * 10 ** (clip.gain_db / 20), abs=1 / 2048)
    assert np.abs(played).max() == pytest.approx(PEAK, abs=1 / 2048)
    assert clip.duration_s == 1.0


def test_the_piece_asked_for_is_cut_and_stays_inside():
    sound = np.linspace(0, 1, 20 * RATE_HZ, dtype=np.float32)
    middle, end = make_clip(sound, RATE_HZ, 5.0, 4.0), make_clip(sound, RATE_HZ, 19.0, 4.0)
    assert (middle.start_s, middle.duration_s) == (5.0, 4.0)
    assert (end.start_s, end.duration_s) == (16.0, 4.0)
    played, _ = decoded(middle)
    assert played[0] / played[-1] == pytest.approx(5 / 9, abs=0.01)


def test_silence_is_not_made_loud():
    clip = make_clip(np.zeros(RATE_HZ, np.float32), RATE_HZ, 0.0, 10.0)
    assert clip.gain_db == 0.0
    assert not decoded(clip)[0].any()
