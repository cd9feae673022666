"""Each flag is given for the sound, or the file, that it describes."""

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from leakdet.acoustics.flags import Flag
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.config import SignalConfig

NOISE = 0.1 * np.random.default_rng(0).standard_normal(24000)
SINE = 0.9 * np.sin(np.arange(24000))


def encoded(kind: str, sound: np.ndarray = NOISE, **how: str) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, sound, 16000, format=kind, **how)
    return file.getvalue()


WAV = encoded("WAV", subtype="PCM_16")
EXAMPLES: dict[Flag, bytes] = {
    "short": encoded("WAV", NOISE[:9000]),
    "silent": encoded("WAV", 0 * NOISE),
    "stuck": encoded("WAV", np.append(NOISE, np.full(16000, 0.3))),
    "dropouts": encoded("WAV", np.append(NOISE, np.zeros(16000))),
    "truncated": WAV[:40000],
    "damaged": WAV + bytes(range(1, 250)),
    "header_mended": WAV[:40] + bytes(4) + WAV[44:],
    "unchecked": encoded("VOC"),
    "channels_cancel": encoded("WAV", np.stack([NOISE, -NOISE], 1), subtype="FLOAT"),
    "clipped": encoded("WAV", np.clip(9 * NOISE, -1, 1)),
    "over_full_scale": encoded("WAV", 1.3 * SINE, subtype="FLOAT"),
    "narrow_band": encoded("WAV").replace(
        (16000).to_bytes(4, "little"), (8000).to_bytes(4, "little")
    ),
}  # the others say where a recording comes from, not what is in its file


@pytest.mark.parametrize("flag", EXAMPLES)
def test_each_flag_is_given(flag: Flag, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(EXAMPLES[flag])
    stream = MelStream(tmp_path / "x", LogMel(SignalConfig()))
    assert list(stream)
    assert flag in stream.facts.flags
