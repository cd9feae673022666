"""Headers whose sizes are not those of the sound behind them."""

import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from leakdet.acoustics.containers.riff import byte_order
from leakdet.acoustics.containers.sound_file import SoundFile
from leakdet.acoustics.containers.source import ByteSource

SOUND = (8000 * np.sin(np.arange(20000))).astype("<i2")


def chunk(name: bytes, body: bytes, size: int | None = None) -> bytes:
    size = len(body) if size is None else size
    return name + struct.pack("<I", size) + body + bytes(len(body) % 2)


def wav(*chunks: bytes, riff_size: int | None = None, bits: int = 16, align: int = 2) -> bytes:
    head = chunk(b"fmt ", struct.pack("<HHIIHH", 1, 1, 16000, 0, align, bits))
    body = b"WAVE" + head + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body) if riff_size is None else riff_size) + body


def read(content: bytes, folder: Path) -> tuple[np.ndarray, list[str]]:
    path = folder / "x.wav"
    path.write_bytes(content)
    with SoundFile(path) as file:
        blocks = [np.empty((0, 1), np.int16)]
        while len(block := file.read(7000, dtype="int16")):
            blocks.append(block)
        return np.concatenate(blocks)[:, 0], file.flags()


BYTES = SOUND.tobytes()
FOOTER = chunk(b"LIST", b"INFO" + chunk(b"ICMT", b"the battery should be replaced"))


@pytest.mark.parametrize(
    "content",
    [
        wav(chunk(b"data", BYTES), riff_size=len(BYTES)),
        wav(chunk(b"data", BYTES), align=0),
        wav(FOOTER, chunk(b"data", BYTES)),
        wav(chunk(b"data", BYTES), FOOTER),
        wav(chunk(b"data", BYTES), chunk(b"odd_", b"a chunk that nobody knows")),
        wav(chunk(b"data", BYTES), bytes(9000)),
        wav(chunk(b"data", BYTES)) + b"TAG" + bytes(125),
        wav(chunk(b"data", BYTES, 2 * len(SOUND))),
    ],
)
def test_what_is_explained_is_no_fault(content: bytes, tmp_path: Path) -> None:
    sound, flags = read(content, tmp_path)
    assert flags == []
    np.testing.assert_array_equal(sound, SOUND)


@pytest.mark.parametrize(
    "size", [0, 0xFFFFFFFF, 0x7FFFF000, 0x80000000, 0xFFFFFFFF - 36, 8000, 0x7FFFFFFF - 44]
)
@pytest.mark.parametrize("riff_size", [0, None, 0xFFFFFFFF])
def test_a_size_that_is_wrong_is_not_used(size: int, riff_size: int | None, tmp_path: Path) -> None:
    sound, flags = read(wav(chunk(b"data", BYTES, size), riff_size=riff_size), tmp_path)
    assert flags == ["header_mended"]
    np.testing.assert_array_equal(sound, SOUND)


def test_a_size_beyond_the_end_is_a_cut(tmp_path: Path) -> None:
    sound, flags = read(wav(chunk(b"data", BYTES, len(BYTES) + 3000)), tmp_path)
    assert (len(sound), flags) == (len(SOUND), ["truncated"])


def test_a_few_bytes_that_nothing_explains_are_no_sound(tmp_path: Path) -> None:
    footer = bytes(range(1, 256))
    sound, flags = read(wav(chunk(b"data", BYTES), footer), tmp_path)
    assert (len(sound), flags) == (len(SOUND), ["damaged"])


def test_of_two_chunks_of_sound_the_first_is_read_and_the_other_flagged(tmp_path: Path) -> None:
    sound, flags = read(wav(chunk(b"data", BYTES), FOOTER, chunk(b"data", BYTES)), tmp_path)
    assert flags == ["several_streams"]
    np.testing.assert_array_equal(sound, SOUND)


def test_zeros_behind_an_au_are_no_sound(tmp_path: Path) -> None:
    path = tmp_path / "x"
    soundfile.write(path, SOUND, 16000, format="AU", subtype="G721_32")
    content = path.read_bytes()
    sound, flags = read(content, tmp_path)
    again, flags_again = read(content + bytes(3000), tmp_path)
    assert (len(again), flags_again) == (len(sound), flags)


def test_sound_behind_the_size_of_an_au_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "x"
    soundfile.write(path, SOUND, 16000, format="AU", subtype="PCM_16")
    content = path.read_bytes()
    sound, flags = read(content[:8] + (9000).to_bytes(4, "big") + content[12:], tmp_path)
    assert flags == ["header_mended"]
    np.testing.assert_array_equal(sound, SOUND)


@pytest.mark.slow
def test_sizes_beyond_four_gigabytes_are_read_on(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    whole = (1 << 32) + 8000
    with path.open("wb") as file:
        file.write(wav(chunk(b"data", b"", 8000)))
        start = file.tell()
        file.seek(start + 7998)
        file.write(b"\1\2\3\4")
        file.seek(start + whole - 2)
        file.write(b"\5\6")
    with SoundFile(path) as sound_file:
        assert len(sound_file.read(4000)) == 4000
        sound_file._decoder.seek(whole // 2 - 8)  # over 4 GB of silence
        assert sound_file.read(4000, dtype="int16")[:, 0].tolist() == [0] * 7 + [0x0605]
        assert len(sound_file.read(4000)) == 0
        assert sound_file.flags() == ["header_mended"]


@pytest.mark.parametrize(("kind", "endian"), [("AIFF", "LITTLE"), ("AIFF", "BIG"), ("CAF", "BIG")])
def test_the_order_of_bytes_is_that_of_the_container(
    kind: str, endian: str, tmp_path: Path
) -> None:
    path = tmp_path / "x"
    soundfile.write(path, SOUND, 16000, format=kind, subtype="PCM_16", endian=endian)
    with soundfile.SoundFile(path) as file, path.open("rb") as raw:
        assert byte_order(ByteSource(raw.fileno()), file.endian) == endian


def test_an_aiff_whose_size_is_0_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "x"
    soundfile.write(path, SOUND, 16000, format="AIFF", subtype="PCM_16")
    content = path.read_bytes()
    at = content.index(b"SSND") + 4
    sound, flags = read(content[:at] + bytes(4) + content[at + 4 :], tmp_path)
    assert flags == ["header_mended"]
    np.testing.assert_array_equal(sound, SOUND)
