import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from leakdet.acoustics.byte_source import ByteSource, Layout
from leakdet.acoustics.mp3_frames import mp3_layout, parse_frame


def mp3(rate_hz: int = 44100, channels: int = 1, **how: Any) -> bytes:
    noise = 0.1 * np.random.default_rng(0).standard_normal((3 * rate_hz, channels))
    file = io.BytesIO()
    soundfile.write(file, noise, rate_hz, format="MP3", subtype="MPEG_LAYER_III", **how)
    return file.getvalue()


def layout(content: bytes, folder: Path) -> Layout:
    (folder / "x.mp3").write_bytes(content)
    return mp3_layout(ByteSource(os.open(folder / "x.mp3", os.O_RDONLY)))


@pytest.mark.parametrize("rate_hz", [8000, 11025, 16000, 22050, 32000, 44100, 48000])
@pytest.mark.parametrize("channels", [1, 2])
def test_frames_are_counted_and_a_right_count_is_kept(
    rate_hz: int, channels: int, tmp_path: Path
) -> None:
    content = mp3(rate_hz, channels)
    answer = layout(content, tmp_path)
    assert not answer.parts
    assert answer.frames is not None
    assert 0 <= answer.frames - 3 * rate_hz < 3 * 1152


def test_tags_and_zeros_are_no_damage(tmp_path: Path) -> None:
    id3 = b"ID3\x04\0\0\0\0\x02\0" + bytes(256)
    for content in (id3 + mp3(), mp3() + b"TAG" + bytes(125), mp3() + bytes(3000)):
        answer = layout(content, tmp_path)
        assert not answer.damaged
        assert not answer.truncated


def test_cuts_damage_and_joins(tmp_path: Path) -> None:
    content = mp3()
    first = parse_frame(content[:4])
    assert first
    assert (first.samples, first.is_mono) == (1152, True)
    cut = layout(content[: len(content) // 2], tmp_path)
    assert (cut.truncated, cut.damaged, len(cut.parts)) == (True, False, 1)
    assert len(layout(content * 2, tmp_path).parts) == 2
    uncounted = layout(content[first.size :] * 2, tmp_path)
    assert (len(uncounted.parts), uncounted.truncated, uncounted.damaged) == (1, False, False)
    middle = len(content) // 2
    damaged = content[:middle] + b"\x07" * 900 + content[middle + 900 :]
    assert (layout(damaged, tmp_path).damaged, layout(damaged, tmp_path).truncated) == (True, False)


def test_what_is_no_frame_is_refused() -> None:
    for head in (b"", b"\xff\xfb", b"RIFF", b"\xff\xfb\xf0\xc4", b"\xff\xe9\x90\xc4", bytes(4)):
        assert parse_frame(head) is None
