import io
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile

from leakdet.acoustics.byte_source import ByteSource
from leakdet.acoustics.sound_file import SoundFile
from leakdet.acoustics.stream_layout import stream_layout

SOUND = 0.1 * np.random.default_rng(0).standard_normal(32000)


@pytest.mark.parametrize(
    ("kind", "name"), [("FLAC", "flac"), ("OGG", "ogg"), ("MP3", "mp3"), ("WAV", "other")]
)
def test_the_kind_is_seen_by_content(kind: str, name: str, tmp_path: Path) -> None:
    file = io.BytesIO()
    soundfile.write(file, SOUND, 16000, format=kind)
    (tmp_path / "x").write_bytes(file.getvalue())
    assert stream_layout(ByteSource(os.open(tmp_path / "x", os.O_RDONLY)))[2] == name


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")
def test_flac_in_ogg_is_unwrapped(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "x.wav", SOUND, 16000)
    command = ["ffmpeg", "-loglevel", "error", "-i", "x.wav", "-c:a", "flac", "-f", "ogg", "x.oga"]
    subprocess.run(command, cwd=tmp_path, check=True)
    content = (tmp_path / "x.oga").read_bytes()
    expected = soundfile.read(tmp_path / "x.wav", dtype="float32")[0]
    for copies, size, flags in [(1, None, []), (2, None, []), (1, 30000, ["truncated"])]:
        (tmp_path / "y.oga").write_bytes((content * copies)[:size])
        with SoundFile(tmp_path / "y.oga") as file:
            blocks = []
            while len(block := file.read(10000)):
                blocks.append(block[:, 0])
            assert file.flags() == flags
        sound = np.concatenate(blocks)
        assert len(sound) > 8000
        np.testing.assert_array_equal(sound[: len(expected)], expected[: len(sound)])
        assert size or len(sound) == copies * len(expected)
