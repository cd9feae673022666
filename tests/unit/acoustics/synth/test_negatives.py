"""Made-up sounds without a pipe, and the folder that holds them."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile
from scipy.signal import welch

from leakdet.acoustics.synth import negatives
from leakdet.acoustics.synth.negatives import (
    KINDS,
    LEVEL_RANGE_DBFS,
    negative_sound,
    synthetic_negatives,
)
from leakdet.acoustics.synth.waveforms import rms
from leakdet.config import SignalConfig

RATE_HZ = 16000


def clip(number: int, seed: int = 0) -> np.ndarray:
    return negative_sound(seed, number, RATE_HZ, 2 * RATE_HZ)


def test_a_clip_is_a_function_of_seed_and_number_within_full_scale_and_the_levels() -> None:
    for number in range(3 * len(KINDS)):
        sound = clip(number)
        assert np.array_equal(sound, clip(number))
        assert not np.array_equal(sound, clip(number, seed=1))
        assert np.abs(sound).max() <= 1
        # what is clipped is a little softer
        assert LEVEL_RANGE_DBFS[0] - 3 < 20 * np.log10(rms(sound)) <= LEVEL_RANGE_DBFS[1] + 1e-3


def test_kinds_differ_in_spectrum_or_in_time() -> None:
    """In the mean of several clips: the share of low sound, and the peaks of level over time."""
    traits = {}
    for place, kind in enumerate(KINDS):
        sounds = [clip(place + turn * len(KINDS)) for turn in range(12)]
        freqs_hz, density = welch(np.stack([s / rms(s) for s in sounds]), RATE_HZ, nperseg=2048)
        low = density[:, freqs_hz < 300].sum(1) / density.sum(1)
        level = [np.square(s).reshape(-1, 160).mean(1) for s in sounds]
        traits[kind] = (low.mean(), np.mean([np.quantile(v, 0.98) / v.mean() for v in level]))
    for one, other in itertools.combinations(KINDS, 2):
        apart = np.abs(np.subtract(traits[one], traits[other]))
        assert (apart > (0.02, 0.1)).any(), (one, other)
    assert traits["wind"][0] > 2 * traits["rain"][0]
    assert traits["modulated"][1] > 1.1 * traits["noise"][1]


def test_a_set_is_written_once_for_each_signal_and_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(negatives, "CLIPS", 9)
    signal = SignalConfig(sample_rate_hz=8000, window_samples=24000)
    made: list[int] = []
    original = negatives.negative_sound
    monkeypatch.setattr(
        negatives, "negative_sound", lambda *args: made.append(args[1]) or original(*args)
    )
    with ThreadPoolExecutor(4) as pool:  # as folds that begin together
        folders = set(pool.map(lambda _: synthetic_negatives(signal, 5, tmp_path), range(4)))
    assert made == list(range(9))
    (folder,) = folders
    files = sorted(folder.iterdir())
    assert {file.name.split("-")[0] for file in files} == set(KINDS)
    assert {(info.samplerate, info.frames) for info in map(soundfile.info, files)} == {
        (8000, 48000)  # two windows
    }
    assert synthetic_negatives(signal, 6, tmp_path) != folder
    assert synthetic_negatives(SignalConfig(sample_rate_hz=8000), 5, tmp_path) != folder
