"""Tags in front of and behind the sound are neither sound nor damage."""

import io
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from leakdet.acoustics.byte_source import ByteSource
from leakdet.acoustics.sound_file import SoundFile
from leakdet.acoustics.tags import after_tags, before_tags

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
