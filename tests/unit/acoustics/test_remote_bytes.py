"""Blocks of a file behind a URL: how many requests it takes, and that sound is read alike."""

import io
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import soundfile
from tests.remote_stores import FlakyStore

from leakdet._remote import RemoteFile
from leakdet.acoustics import remote_bytes
from leakdet.acoustics.audio import SoundStream, read_header
from leakdet.acoustics.remote_bytes import RemoteBytes
from leakdet.acoustics.sound_file import SoundFile
from leakdet.config import SignalConfig
from leakdet.errors import InputError

FILE = RemoteFile("flaky://net/night/a.wav")
SOUND = (0.1 * np.random.default_rng(0).standard_normal(40000)).astype(np.float32)
KINDS = [("WAV", "PCM_16"), ("WAV", "FLOAT"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"),
         ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III"), ("AIFF", "PCM_24"), ("CAF", "PCM_16"),
         ("W64", "PCM_16"), ("AU", "ULAW")]  # fmt: skip


@pytest.fixture
def put(flaky: type[FlakyStore]) -> Any:
    return lambda content: fsspec.filesystem("flaky").pipe_file("/net/night/a.wav", content)


def test_a_short_file_takes_one_request(put: Any, flaky: type[FlakyStore]) -> None:
    file = io.BytesIO()
    soundfile.write(file, SOUND, 16000, format="WAV")
    put(file.getvalue())
    header = read_header(FILE)
    assert (header.rate_hz, header.about_s) == (16000, 2.5)
    assert flaky.requests == {"cat_file": 1}
    list(SoundStream(FILE, SignalConfig()))
    assert flaky.requests == {"cat_file": 2}


def test_any_part_of_a_long_file_is_read_in_few_blocks(
    put: Any, flaky: type[FlakyStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_bytes, "BLOCK_BYTES", 1000)
    content = np.random.default_rng(1).bytes(4500)
    put(content)
    source = RemoteBytes(FILE)
    assert source.size == 4500
    for at, count in ((0, 10), (990, 20), (0, 4500), (4490, 100), (5000, 10), (1500, 0)):
        assert source.read_at(at, count) == content[at : at + count]
    flaky.requests.clear()
    for at in range(3000, 4500, 10):
        assert source.read_at(at, 10) == content[at : at + 10]
    assert flaky.requests["cat_file"] <= 2
    assert source.read_at(0, 4500) == content
    assert len(source._blocks) == remote_bytes.KEPT_BLOCKS


@pytest.mark.parametrize("size", [0, 1000, 1001, 2000])
def test_sizes_beside_that_of_a_block(size: int, put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_bytes, "BLOCK_BYTES", 1000)
    put(bytes(size))
    source = RemoteBytes(FILE)
    assert (source.size, source.read_at(0, 5000)) == (size, bytes(size))


def test_a_file_that_became_shorter_ends_there(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_bytes, "BLOCK_BYTES", 1000)
    put(bytes(5000))
    source = RemoteBytes(FILE)
    put(bytes(2500))
    assert source.read_at(0, 5000) == bytes(2500)


@pytest.mark.parametrize("block_bytes", [700, 8 << 20])
@pytest.mark.parametrize("part", [1.0, 0.6])
@pytest.mark.parametrize(("kind", "subtype"), KINDS)
def test_sound_is_the_same_as_that_of_the_local_file(
    kind: str,
    subtype: str,
    part: float,
    block_bytes: int,
    put: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_bytes, "BLOCK_BYTES", block_bytes)
    file = io.BytesIO()
    soundfile.write(file, SOUND, 16000, format=kind, subtype=subtype)
    content = file.getvalue()[: int(len(file.getvalue()) * part)]
    put(content)
    local = tmp_path / "a.wav"
    local.write_bytes(content)
    sounds = []
    for source in (local, FILE):
        stream = SoundStream(source, SignalConfig(sample_rate_hz=8000), with_hum=True)
        sounds.append((np.concatenate(list(stream)), stream.facts))
    np.testing.assert_array_equal(sounds[0][0], sounds[1][0])
    assert sounds[0][1] == sounds[1][1]
    assert ("truncated" in sounds[1][1].flags) == (part < 1)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"no sound at all" * 50, "not readable as audio"),
        (None, "there is no such file"),
    ],
)
def test_what_is_no_sound_is_named_as_for_a_local_file(
    content: bytes | None, reason: str, put: Any
) -> None:
    if content is not None:
        put(content)
    with pytest.raises(InputError, match=reason), SoundFile(FILE):
        pass


def test_a_file_is_opened_again_for_each_channel(put: Any) -> None:
    file = io.BytesIO()
    soundfile.write(file, SOUND.reshape(-1, 2), 16000, format="WAV", subtype="FLOAT")
    put(file.getvalue())
    with SoundFile(FILE) as opened:
        first = opened.read(1 << 20)
        opened.rewind()
        np.testing.assert_array_equal(opened.read(1 << 20), first)
        assert first.shape == (20000, 2)
