"""A small source of audio, and its settings."""

from collections.abc import Callable
from pathlib import Path

import pytest

from leakdet.building.sources import SourceRecording
from leakdet.config import BuildConfig, SignalConfig

SIGNAL = SignalConfig(2000, 400, 200, 100, 50, n_mels=8, fmin_hz=0.0, fmax_hz=1000.0)


@pytest.fixture
def signal() -> SignalConfig:
    return SIGNAL


@pytest.fixture
def source(tmp_path: Path, write_sound) -> Path:
    """Twelve recordings of 0.5 to 1.6 s at 2 kHz in two label folders."""
    for number in range(12):
        label = ("LEAK", "NOLEAK")[number % 2]
        write_sound(f"audio/{label}/{number:02}.wav", 0.5 + number / 10, 2000, seed=number)
    return tmp_path / "audio"


@pytest.fixture
def config(source: Path, tmp_path: Path) -> Callable[..., BuildConfig]:
    """`config(**changes)`: settings that build `tmp_path / "store"` from `source`."""

    def make(**changes: object) -> BuildConfig:
        plain = {"source": str(source), "out": str(tmp_path / "store"), "signal": SIGNAL}
        return BuildConfig(**{**plain, **changes})

    return make


@pytest.fixture
def recording_of(write_sound) -> Callable[..., SourceRecording]:
    """`recording_of("a.wav", seconds=1.0, label="LEAK")`: a recording of noise at 2 kHz."""

    def make(name: str, seconds: float = 1.0, label: str = "LEAK", **more) -> SourceRecording:
        return SourceRecording(name, write_sound(name, seconds, 2000), label, **more)

    return make
