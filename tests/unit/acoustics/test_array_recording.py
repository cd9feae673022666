"""An array gives what a WAV file of the same samples gives."""

import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from leakdet.acoustics.array_recording import ArrayRecording
from leakdet.acoustics.audio import SoundStream, WaveformFacts
from leakdet.config import SignalConfig
from leakdet.errors import InputError

SUBTYPES = {"int16": "PCM_16", "int32": "PCM_32", "float32": "FLOAT", "float64": "DOUBLE"}


def streamed(
    source: Path | ArrayRecording, channels: str = "mean"
) -> tuple[np.ndarray, WaveformFacts]:
    stream = SoundStream(source, SignalConfig(channels=channels))
    return np.concatenate(list(stream)), stream.facts


def samples_of(dtype: str, channels: int, seconds: float = 1.3, rate_hz: int = 22050) -> np.ndarray:
    rng = np.random.default_rng(channels)
    sound = np.clip(0.3 * rng.standard_normal((int(seconds * rate_hz), channels)), -1.0, 1.0)
    if dtype.startswith("float"):
        return sound.astype(dtype)
    return (sound * np.iinfo(dtype).max).astype(dtype)


@pytest.mark.parametrize("dtype", SUBTYPES)
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("mix", ["mean", "first"])
def test_an_array_is_the_file_of_its_samples(
    dtype: str, channels: int, mix: str, tmp_path: Path
) -> None:
    samples = samples_of(dtype, channels)
    soundfile.write(tmp_path / "a.wav", samples, 22050, subtype=SUBTYPES[dtype])
    expected, facts = streamed(tmp_path / "a.wav", mix)
    sound, same_facts = streamed(ArrayRecording(samples, 22050), mix)
    np.testing.assert_array_equal(sound, expected)
    assert same_facts == facts


def test_8_bit_samples_have_silence_at_128(tmp_path: Path) -> None:
    samples = np.random.default_rng(0).integers(0, 256, 16000).astype(np.uint8)
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 1, 16000, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    expected, facts = streamed(tmp_path / "a.wav")
    sound, same_facts = streamed(ArrayRecording(samples, 16000))
    np.testing.assert_array_equal(sound, expected)
    assert same_facts == facts


def test_a_view_in_any_memory_order_is_read_as_its_values() -> None:
    samples = samples_of("float32", 2)
    expected, _ = streamed(ArrayRecording(samples, 16000))
    for same in (np.asfortranarray(samples), samples[::-1][::-1], np.repeat(samples, 2, 0)[::2]):
        np.testing.assert_array_equal(streamed(ArrayRecording(same, 16000))[0], expected)


def test_it_can_be_read_again() -> None:
    recording = ArrayRecording(samples_of("int16", 1), 16000)
    np.testing.assert_array_equal(streamed(recording)[0], streamed(recording)[0])


@pytest.mark.parametrize(
    ("samples", "rate_hz", "message"),
    [
        (np.zeros(9, np.int64), 16000, "array is of int64; allowed are float16"),
        (np.zeros(9, bool), 16000, "array is of bool"),
        (np.zeros((9, 2, 1)), 16000, r"shape \(9, 2, 1\)"),
        (np.zeros((2, 9)), 16000, "9 channels of 2 samples each; transpose"),
        (np.zeros(9), 0, "rate is 0 Hz"),
        (np.zeros(9), 44100.5, "rate is 44100.5 Hz"),
        (np.zeros(0), 16000, "the array is empty"),
        (np.zeros(9), float("nan"), "the rate is nan Hz"),
        (np.zeros(9), float("inf"), "the rate is inf Hz"),
        (np.zeros(9), "8000", "the rate is 8000 Hz; allowed are whole numbers"),
        (np.zeros(9), None, "the rate is None Hz"),
    ],
)
def test_what_is_no_recording_is_refused(samples: np.ndarray, rate_hz: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ArrayRecording(samples, rate_hz)
