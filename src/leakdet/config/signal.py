"""How audio becomes log-mel."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from leakdet.config.range_checks import at_least, from_dict, one_of, require


@dataclass
class SignalConfig:
    """How audio becomes log-mel. Build, train, predict and export share one value of this, told apart by `hash`."""

    sample_rate_hz: int = 16000
    window_samples: int = 16000
    window_hop_samples: int = 8000
    segment_samples: int = 1024
    segment_hop_samples: int = 512
    n_fft: int = 0  # 0: the segment, hence one frame per segment
    # 0: half of n_fft; matters only where n_fft is shorter than the segment
    frame_hop_samples: int = 0
    n_mels: int = 64
    fmin_hz: float = 300.0
    # auto: the lowest Nyquist frequency among the sources, found by `build`
    fmax_hz: int | float | str = "auto"
    floor: float = 1e-5  # smallest magnitude, 1e-5 = -100 dB
    channels: str = "mean"  # mean | first
    detrend: str = "none"  # none | mean | linear, within each window
    highpass_hz: float = 0.0  # 0: off. Butterworth, causal, so that a recording can be streamed
    highpass_order: int = 4

    def __post_init__(self) -> None:
        for name in (
            "sample_rate_hz",
            "window_samples",
            "window_hop_samples",
            "segment_samples",
            "segment_hop_samples",
        ):
            at_least(f"signal.{name}", getattr(self, name), 1)
        require(
            self.segment_samples <= self.window_samples,
            "signal.segment_samples",
            self.segment_samples,
            f"at most window_samples={self.window_samples}",
        )
        require(
            self.window_hop_samples <= self.window_samples,
            "signal.window_hop_samples",
            self.window_hop_samples,
            f"at most window_samples={self.window_samples}, or sound would be skipped",
        )
        require(
            self.n_fft == 0 or 2 <= self.n_fft <= self.segment_samples,
            "signal.n_fft",
            self.n_fft,
            f"0 (the segment) or from 2 to segment_samples={self.segment_samples}",
        )
        at_least("signal.frame_hop_samples", self.frame_hop_samples, 0)
        at_least("signal.n_mels", self.n_mels, 1)
        require(self.floor > 0, "signal.floor", self.floor, "above 0")
        nyquist_hz = self.sample_rate_hz / 2
        top_hz = nyquist_hz if self.fmax_hz == "auto" else self.fmax_hz
        ok = isinstance(top_hz, int | float) and 0 < top_hz <= nyquist_hz
        require(
            ok,
            "signal.fmax_hz",
            self.fmax_hz,
            f"auto, or at most half the sample rate, {nyquist_hz:g} Hz",
        )
        self.fmax_hz = "auto" if self.fmax_hz == "auto" else float(top_hz)  # one spelling, one hash
        require(
            0 <= self.fmin_hz < float(top_hz),
            "signal.fmin_hz",
            self.fmin_hz,
            f"from 0 to below {top_hz:g} Hz (fmax)",
        )
        one_of("signal.channels", self.channels, ("mean", "first"))
        one_of("signal.detrend", self.detrend, ("none", "mean", "linear"))
        require(
            0 <= self.highpass_hz < nyquist_hz,
            "signal.highpass_hz",
            self.highpass_hz,
            f"from 0 to below {nyquist_hz:g} Hz",
        )
        require(
            1 <= self.highpass_order <= 12,
            "signal.highpass_order",
            self.highpass_order,
            "from 1 to 12",
        )

    @property
    def fft_samples(self) -> int:
        return self.n_fft or self.segment_samples

    @property
    def fft_hop_samples(self) -> int:
        return self.frame_hop_samples or max(1, self.fft_samples // 2)

    @property
    def top_hz(self) -> float:
        """fmax as a number: half the sample rate while it is `auto`."""
        return self.sample_rate_hz / 2 if isinstance(self.fmax_hz, str) else float(self.fmax_hz)

    @property
    def segments(self) -> int:
        """Segments in a window."""
        return 1 + (self.window_samples - self.segment_samples) // self.segment_hop_samples

    @property
    def frames(self) -> int:
        """Frames in a segment."""
        return 1 + (self.segment_samples - self.fft_samples) // self.fft_hop_samples

    @property
    def mel_shape(self) -> tuple[int, int, int]:
        """[segments, mels, frames] of one window."""
        return self.segments, self.n_mels, self.frames

    @property
    def window_s(self) -> float:
        return self.window_samples / self.sample_rate_hz

    @property
    def hash(self) -> str:
        """Twelve hex digits that differ whenever two settings could give different mels."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def differences(self, other: "SignalConfig") -> list[str]:
        """`name: mine / theirs` of every field that differs."""
        mine, theirs = asdict(self), asdict(other)
        return [
            f"{name}: {mine[name]} / {theirs[name]}" for name in mine if mine[name] != theirs[name]
        ]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str) -> "SignalConfig":
        """Rebuild settings that were stored as JSON. Raises `SettingsError` on unknown or missing fields."""
        return from_dict(cls, values, where)
