import io
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from leakdet.acoustics.containers.flac import FlacFrame, flac_layout, next_frame, resumed
from leakdet.acoustics.containers.sound_file import SoundFile
from leakdet.acoustics.containers.source import ByteSource

FRAMES = 50000


def source(content: bytes, folder: Path) -> ByteSource:
    (folder / "x.flac").write_bytes(content)
    return ByteSource(os.open(folder / "x.flac", os.O_RDONLY))


def flac(rate_hz: int = 16000, channels: int = 1, subtype: str = "PCM_16") -> bytes:
    noise = 0.1 * np.random.default_rng(0).standard_normal((FRAMES, channels))
    file = io.BytesIO()
    soundfile.write(file, noise, rate_hz, format="FLAC", subtype=subtype)
    return file.getvalue()


@pytest.mark.parametrize("rate_hz", [8000, 16000, 44100, 48000, 12345, 192000])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("subtype", ["PCM_S8", "PCM_16", "PCM_24"])
def test_frames_follow_each_other(
    rate_hz: int, channels: int, subtype: str, tmp_path: Path
) -> None:
    stream = source(flac(rate_hz, channels, subtype), tmp_path)
    first, at = 0, 42
    while frame := next_frame(stream, at):
        assert frame.first == first
        first, at = first + frame.samples, frame.at + 1
    assert first == FRAMES


def test_a_total_that_is_missing_is_that_of_the_last_frame(tmp_path: Path) -> None:
    content = bytearray(flac())
    assert flac_layout(source(bytes(content), tmp_path)).frames == FRAMES
    content[21] &= 0xF0
    content[22:26] = bytes(4)
    layout = flac_layout(source(bytes(content), tmp_path))
    assert (layout.frames, layout.parts) == (FRAMES, [])
    layout = flac_layout(source(bytes(content) * 2, tmp_path))
    assert (layout.frames, len(layout.parts)) == (2 * FRAMES, 2)


@pytest.mark.parametrize("total", [1, FRAMES // 2, FRAMES - 1])
def test_a_total_that_is_too_small_is_not_believed(total: int, tmp_path: Path) -> None:
    content = bytearray(flac())
    content[21] &= 0xF0
    content[22:26] = total.to_bytes(4, "big")
    layout = flac_layout(source(bytes(content), tmp_path))
    assert (layout.frames, layout.mended) == (FRAMES, True)
    with SoundFile(tmp_path / "x.flac") as file:
        assert len(file.read(2 * FRAMES)) == FRAMES
        assert not len(file.read(1))
        assert file.flags() == ["header_mended"]


def test_a_stream_is_resumed_behind_a_sample_point(tmp_path: Path) -> None:
    stream = source(flac(), tmp_path)
    answer = resumed(stream, 9000)
    assert answer
    pieces, frame = answer
    assert frame.first == 12288
    assert isinstance(pieces[0], bytes)
    assert pieces[0][:4] == b"fLaC"
    rest = ByteSource(stream.descriptor, pieces)
    assert next_frame(rest, 42) == FlacFrame(42, frame.first, frame.samples)
    assert resumed(stream, FRAMES) is None
