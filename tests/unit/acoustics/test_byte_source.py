import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leakdet.acoustics.byte_source import BLOCK_BYTES, ByteSource, Piece

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
