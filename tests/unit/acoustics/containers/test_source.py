import io
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.remote_stores import FlakyStore

from leakdet.acoustics.audio import SoundStream, read_header
from leakdet.acoustics.containers import source as remote_bytes
from leakdet.acoustics.containers.sound_file import SoundFile
from leakdet.acoustics.containers.source import (
    BLOCK_BYTES,
    ByteSource,
    Piece,
    RemoteBytes,
    opened_file,
)
from leakdet.config import SignalConfig
from leakdet.core.errors import InputError
from leakdet.core.locations import RemoteFile

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
    monkeypatch.setattr(remote_bytes, "REMOTE_BLOCK_BYTES", 1000)
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
    monkeypatch.setattr(remote_bytes, "REMOTE_BLOCK_BYTES", 1000)
    put(bytes(size))
    source = RemoteBytes(FILE)
    assert (source.size, source.read_at(0, 5000)) == (size, bytes(size))


def test_a_file_that_became_shorter_ends_there(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_bytes, "REMOTE_BLOCK_BYTES", 1000)
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
    monkeypatch.setattr(remote_bytes, "REMOTE_BLOCK_BYTES", block_bytes)
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
        (b"", "empty"),
        (b"no sound at all" * 50, "not readable"),
        (None, "no such file"),
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


def test_what_comes_through_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    fifo, content = tmp_path / "sound.wav", bytes(range(256)) * 1000
    os.mkfifo(fifo)
    thread = threading.Thread(target=fifo.write_bytes, args=(content,))
    thread.start()
    with opened_file(fifo) as file:
        file.seek(0)
        assert file.read() == content
    thread.join()


def test_a_dash_is_standard_input() -> None:
    code = (
        "from pathlib import Path; from leakdet.acoustics.containers.source import opened_file\n"
        "file = opened_file(Path('-')); file.seek(0); print(len(file.read()))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], input=bytes(70000), capture_output=True, check=True
    )
    assert answer.stdout == b"70000\n"


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    for path, reason in [
        (tmp_path, "it is a folder"),
        (Path("/dev/null"), "it is a device"),
        (tmp_path / "absent.wav", "No such file"),
        (Path("a\0b.wav"), "null byte"),
    ]:
        with pytest.raises(InputError, match=reason):
            opened_file(path)


def test_a_name_of_any_bytes_is_opened(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.wav")
    (tmp_path / name).write_bytes(b"sound")
    with opened_file(tmp_path / name) as file:
        assert file.read() == b"sound"


CONTENT = bytes(range(256)) * (3 * BLOCK_BYTES // 256)
BOUND = st.integers(0, len(CONTENT))
PIECES = st.lists(
    st.one_of(st.binary(max_size=9), st.tuples(BOUND, BOUND).map(lambda ends: tuple(sorted(ends)))),
    max_size=5,
)


@pytest.fixture(scope="module")
def descriptor(tmp_path_factory: pytest.TempPathFactory) -> int:
    path = tmp_path_factory.mktemp("bytes") / "file"
    path.write_bytes(CONTENT)
    return os.open(path, os.O_RDONLY)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PIECES, st.lists(st.tuples(BOUND, st.integers(0, 2 * BLOCK_BYTES)), max_size=4))
def test_pieces_read_as_their_bytes_in_a_row(
    descriptor: int, pieces: list[Piece], places: list[tuple[int, int]]
) -> None:
    whole = b"".join(p if isinstance(p, bytes) else CONTENT[slice(*p)] for p in pieces)
    source = ByteSource(descriptor, pieces)
    assert source.size == len(whole)
    for start, count in places:
        assert source.at(start, count) == whole[start : start + count]
        part = ByteSource(descriptor, source.part(start, start + count))
        assert part.at(0, count) == whole[start : start + count]
        pattern = whole[start : start + 3]
        if len(pattern) == 3:
            assert source.find(pattern, start // 2) == whole.find(pattern, start // 2)
    assert source.find(b"not in there", 0) == -1


def test_it_is_read_like_a_file(descriptor: int) -> None:
    source = ByteSource(descriptor, [b"head", (0, 6)])
    assert (source.read(5), source.tell()) == (b"head\x00", 5)
    assert (source.seek(-2, os.SEEK_END), source.read(9), source.read(9)) == (8, b"\x04\x05", b"")
    assert source.seek(1) == 1
    assert (source.seek(1, os.SEEK_CUR), source.read(2)) == (2, b"ad")
