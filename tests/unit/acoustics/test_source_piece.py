import numpy as np
import pytest
import soundfile

from leakdet.acoustics.source_piece import read_piece
from leakdet.errors import InputError


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
