import io
import os
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest
import soundfile

from leakdet.acoustics.containers.ogg import FIRST, ogg_layout, ogg_pages
from leakdet.acoustics.containers.sound_file import SoundFile
from leakdet.acoustics.containers.source import ByteSource, Layout


def ogg(subtype: str = "VORBIS", frames: int = 100000) -> bytes:
    noise = 0.1 * np.random.default_rng(0).standard_normal(frames)
    file = io.BytesIO()
    soundfile.write(file, noise, 16000, format="OGG", subtype=subtype)
    return file.getvalue()


def layout(content: bytes, folder: Path) -> Layout:
    (folder / "x.ogg").write_bytes(content)
    descriptor = os.open(folder / "x.ogg", os.O_RDONLY)
    return ogg_layout(ByteSource(descriptor))


def blocks(file: SoundFile) -> Iterator[np.ndarray]:
    while len(block := file.read(9000)):
        yield block


def side_by_side(one: bytes, other: bytes, folder: Path) -> bytes:
    """Both streams with their pages in turn, as in a film with two languages."""
    pages = []
    for content in (one, other):
        (folder / "one").write_bytes(content)
        source = ByteSource(os.open(folder / "one", os.O_RDONLY))
        pages.append([(page.kind, content[page.start : page.stop]) for page in ogg_pages(source)])
    heads = [page for stream in pages for kind, page in stream if kind & FIRST]
    rest = [[page for kind, page in stream if not kind & FIRST] for stream in pages]
    in_turn = [page for pair in zip_longest(*rest, fillvalue=b"") for page in pair]
    return b"".join([*heads, *in_turn])


def test_of_streams_side_by_side_the_first_is_read_and_the_rest_flagged(tmp_path: Path) -> None:
    vorbis, opus = ogg("VORBIS"), ogg("OPUS", 30000)
    for one, other, frames in [(vorbis, opus, 100000), (opus, vorbis, 30000)]:
        content = side_by_side(one, other, tmp_path)
        for copies in (1, 2):
            answer = layout(content * copies, tmp_path)
            assert (answer.several, answer.truncated, answer.damaged) == (True, False, False)
            with SoundFile(tmp_path / "x.ogg") as file:
                assert sum(map(len, blocks(file))) == copies * frames
                assert file.flags() == ["several_streams"]


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_links_cuts_and_damage(subtype: str, tmp_path: Path) -> None:
    content = ogg(subtype)
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    for odd, links, truncated, damaged in [
        (content, 0, False, False),
        (content * 3, 3, False, False),
        (content[: len(content) // 2], 0, True, False),
        (content[: len(content) // 2] + content, 2, True, True),
        (bytes(flipped), 0, False, True),
        (content + b"something else", 0, False, True),
        (content + bytes(100), 0, False, False),
    ]:
        answer = layout(odd, tmp_path)
        assert (len(answer.parts), answer.truncated, answer.damaged) == (links, truncated, damaged)
