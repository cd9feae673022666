import io
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from leakdet.acoustics.byte_source import ByteSource, Layout
from leakdet.acoustics.ogg_pages import ogg_layout


def ogg(subtype: str = "VORBIS") -> bytes:
    noise = 0.1 * np.random.default_rng(0).standard_normal(100000)
    file = io.BytesIO()
    soundfile.write(file, noise, 16000, format="OGG", subtype=subtype)
    return file.getvalue()


def layout(content: bytes, folder: Path) -> Layout:
    (folder / "x.ogg").write_bytes(content)
    descriptor = os.open(folder / "x.ogg", os.O_RDONLY)
    return ogg_layout(ByteSource(descriptor))


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
