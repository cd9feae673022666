import io
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from leakdet.acoustics.containers.mp3 import mp3_layout, parse_frame
from leakdet.acoustics.containers.sound_file import SoundFile
from leakdet.acoustics.containers.source import ByteSource, Layout, after_tags, before_tags

SOUND = 0.1 * np.random.default_rng(0).standard_normal(64000)
ITEM = struct.pack("<II", 4, 0) + b"Title\0abcd"


def ape(with_head: bool) -> bytes:
    """An APEv2 tag, whose head is optional."""

    def end(flags: int) -> bytes:
        return b"APETAGEX" + struct.pack("<IIIIQ", 2000, len(ITEM) + 32, 1, flags, 0)

    return (end(0xA0000000) if with_head else b"") + ITEM + end(with_head << 31)


LYRICS = b"LYRICSBEGININD00003110"
TAGS = {
    "ID3v1": b"TAG" + bytes(125),
    "ID3v2": b"ID3\4\0\0\0\0\0\x0a" + b"0123456789",
    "APE": ape(True),
    "APE without head": ape(False),
    "Lyrics3": LYRICS + b"%06dLYRICS200" % len(LYRICS),
}
TAGS["all"] = b"".join(TAGS[name] for name in ("APE", "Lyrics3", "ID3v2", "ID3v1"))
KINDS = {
    "FLAC": "PCM_16", "OGG": "VORBIS", "MP3": "MPEG_LAYER_III", "WAV": "PCM_16", "AIFF": "PCM_16",
    "W64": "PCM_16", "RF64": "PCM_16", "CAF": "ALAC_16", "AU": "PCM_16", "NIST": "PCM_16",
    "SVX": "PCM_16",
}  # fmt: skip


def source(content: bytes, folder: Path) -> ByteSource:
    (folder / "x").write_bytes(content)
    return ByteSource(os.open(folder / "x", os.O_RDONLY))


def read(content: bytes, folder: Path) -> tuple[int, list[str]]:
    (folder / "x").write_bytes(content)
    with SoundFile(folder / "x") as file:
        frames = 0
        while len(block := file.read(20000)):
            frames += len(block)
        return frames, list(file.flags())


@pytest.mark.parametrize("name", TAGS)
def test_where_tags_begin_and_end(name: str, tmp_path: Path) -> None:
    sound, tag = bytes(range(40, 240)), TAGS[name]
    assert before_tags(source(sound + tag, tmp_path)) == len(sound)
    assert before_tags(source(sound, tmp_path)) == len(sound)
    if name != "APE without head":  # known by its end only
        assert after_tags(source(tag + sound, tmp_path), 0) == len(tag)


@pytest.mark.parametrize("kind", KINDS)
def test_tags_are_no_sound_and_no_damage_and_hide_no_cut(kind: str, tmp_path: Path) -> None:
    file = io.BytesIO()
    soundfile.write(file, SOUND, 16000, format=kind, subtype=KINDS[kind])
    content = file.getvalue()
    frames, _ = read(content, tmp_path)
    for tag in TAGS.values():
        assert read(content + tag, tmp_path) == (frames, [])
    assert read(TAGS["ID3v2"] + content + TAGS["ID3v1"], tmp_path) == (frames, [])
    frames, flags = read(TAGS["ID3v2"] + content[: len(content) * 2 // 3], tmp_path)
    assert (frames > 0, flags) == (True, ["truncated"])


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
