"""Pieces of a long recording; their scores are tested with `exporting/onnx_detector.py`."""

import numpy as np
import pytest

from leakdet.acoustics.windows import window_starts
from leakdet.config import SignalConfig
from leakdet.scoring.sound_scores import Pieces

SIGNAL = SignalConfig(4000, 100, 40, 50, 25, n_mels=4, fmin_hz=300.0)


@pytest.mark.parametrize("lead", [0, 1, 3])
@pytest.mark.parametrize("length", [*range(100, 700, 7), 1000, 1021, 1051])
def test_windows_of_pieces_are_those_of_the_whole(lead: int, length: int) -> None:
    sound = np.arange(length, dtype=np.float32)
    pieces = Pieces(SIGNAL, lead, most=5)
    cut = [piece for part in np.array_split(sound, 9) for piece in pieces.add(part)]
    starts = []
    for piece, skip in [*cut, pieces.last()]:
        own = window_starts(len(piece), SIGNAL)
        assert len(own) > skip  # each piece has a window of its own
        starts += (piece[0] + own[skip:]).tolist()
        assert skip == (lead if piece[0] > 0 else skip)
        assert len(own) - skip <= 5 + 3
    assert starts == window_starts(length, SIGNAL).tolist()
