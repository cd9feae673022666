import io

import numpy as np
import pytest
import soundfile

from leakdet.acoustics.clip import PEAK, make_clip, read_piece
from leakdet.core.errors import InputError

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


@pytest.mark.parametrize(
    ("points", "media_type", "magic"),
    [(16384, "audio/wav", b"RIFF"), (32767, "audio/wav", b"RIFF"), (32768, "audio/flac", b"fLaC")],
)
def test_a_short_clip_is_a_file_in_which_every_browser_can_seek(points, media_type, magic):
    sound = np.sin(np.arange(points, dtype=np.float32))
    clip = make_clip(sound, RATE_HZ, 0.0, 10.0)
    assert (clip.media_type, clip.content[:4]) == (media_type, magic)
    assert len(decoded(clip)[0]) == points


def test_silence_is_not_made_loud():
    clip = make_clip(np.zeros(RATE_HZ, np.float32), RATE_HZ, 0.0, 10.0)
    assert clip.gain_db == 0.0
    assert not decoded(clip)[0].any()


@pytest.mark.parametrize(
    ("name", "subtype", "kept"),
    [
        ("a.wav", "PCM_16", "PCM_16"),
        ("a.wav", "PCM_24", "PCM_24"),
        ("a.wav", "PCM_U8", "PCM_U8"),
        ("a.wav", "FLOAT", "FLOAT"),
        ("a.wav", "DOUBLE", "DOUBLE"),
        ("a.flac", "PCM_24", "PCM_24"),
        ("a.aiff", "PCM_16", "PCM_16"),
    ],
)
def test_the_sample_points_are_those_of_the_file(
    write_sound, tmp_path, name, subtype, kept
) -> None:
    sound = 0.3 * np.random.default_rng(0).standard_normal((5 * 11025, 2)).clip(-3, 3)
    path = write_sound(name, rate_hz=11025, samples=sound, subtype=subtype)
    piece = read_piece(path, 1.5, 2.25)
    piece.write(tmp_path / "piece.wav")
    with soundfile.SoundFile(tmp_path / "piece.wav") as file:
        assert (file.samplerate, file.channels, file.subtype) == (11025, 2, kept)
    start, stop = round(1.5 * 11025), round(2.25 * 11025)
    dtype = "float64" if kept in ("FLOAT", "DOUBLE") else "int32"
    expected, _ = soundfile.read(path, start=start, stop=stop, dtype=dtype)
    written, _ = soundfile.read(tmp_path / "piece.wav", dtype=dtype)
    np.testing.assert_array_equal(written, expected)
    assert piece.start_s == start / 11025


def test_lossy_sound_becomes_floats(write_sound, tmp_path) -> None:
    path = write_sound("a.ogg", seconds=3.0)
    read_piece(path, 1.0, 2.0).write(tmp_path / "piece.wav")
    expected, _ = soundfile.read(path, start=16000, stop=32000, dtype="float32")
    written, _ = soundfile.read(tmp_path / "piece.wav", dtype="float32")
    assert soundfile.info(tmp_path / "piece.wav").subtype == "FLOAT"
    np.testing.assert_allclose(written, expected, atol=1e-6)


def test_one_channel_and_the_end_of_the_file(write_sound) -> None:
    sound = np.stack([np.zeros(8000), np.full(8000, 0.5)], axis=1)
    path = write_sound("a.wav", rate_hz=8000, samples=sound)
    piece = read_piece(path, 0.75, 2.0, channel=2)
    assert piece.points.shape == (2000, 1)
    assert (piece.points == piece.points[0]).all()
    assert piece.points[0] > 0


def test_what_cannot_be_read_is_said(tmp_path) -> None:
    (tmp_path / "a.wav").write_text("no sound")
    with pytest.raises(InputError, match="not readable as audio"):
        read_piece(tmp_path / "a.wav", 0.0, 1.0)
