"""Dead windows as operations on tensors, beside the stream that predict reads."""

import numpy as np
import pytest
import torch

from leakdet.acoustics.array_recording import ArrayRecording
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream, window_starts
from leakdet.config import SignalConfig
from leakdet.exporting.live_windows import in_dead_runs, live_windows

SIGNAL = SignalConfig(4000, 1024, 512, 256, 128, n_mels=12, fmin_hz=100.0)


@pytest.mark.parametrize("seed", range(4))
def test_windows_are_live_where_the_stream_says_so(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sound = rng.normal(0, 0.1, 20000).astype(np.float32)
    for _ in range(12):
        start, length = rng.integers(0, 19000), rng.choice([20, 39, 40, 60, 110, 300, 2000])
        sound[start : start + length] = rng.choice([0.0, 0.25, 1e-6])
    blocks = list(MelStream(ArrayRecording(sound, 4000), LogMel(SIGNAL)))
    expected = np.concatenate([block.live for block in blocks])
    starts = torch.from_numpy(window_starts(len(sound), SIGNAL))
    windows = torch.stack([torch.from_numpy(sound)[at : at + 1024] for at in starts.tolist()])
    live = live_windows(windows, torch.from_numpy(sound), starts, 4000)
    assert 0 < expected.sum() < len(expected)
    assert live.tolist() == expected.tolist()


def test_a_run_counts_from_ten_milliseconds_on() -> None:
    sound = torch.arange(400.0)
    sound[100:140], sound[200:239] = 7.0, 7.0
    dead = in_dead_runs(sound, 4000)
    assert dead.nonzero().flatten().tolist() == list(range(100, 140))
