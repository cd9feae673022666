"""Settings of the signal: how audio becomes log-mel."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from leakdet.config.fields import check_ranges, doc, from_dict, require


@dataclass
class SignalConfig:
    """The way from audio to log-mel, kept in stores and model files; `hash` tells two apart."""

    sample_rate_hz: int = doc(16000, "Rate in Hz to which recordings are resampled.", at_least=1)
    window_samples: int = doc(
        16000, "Length of a window, which gets one leak probability, in sample points.", at_least=1
    )
    window_hop_samples: int = doc(
        8000, "Sample points from window to window; at most window_samples.", at_least=1
    )
    segment_samples: int = doc(
        1024,
        "Length of a segment of a window in sample points; at most window_samples.",
        at_least=1,
    )
    segment_hop_samples: int = doc(512, "Sample points from segment to segment.", at_least=1)
    n_fft: int = doc(
        0,
        "Length of the FFT, 2 to segment_samples; 0: a segment, so that it has one frame.",
        at_least=0,
    )
    frame_hop_samples: int = doc(
        0, "Sample points from FFT frame to frame inside a segment; 0: half of n_fft.", at_least=0
    )
    n_mels: int = doc(64, "Number of mel bands.", at_least=1)
    fmin_hz: float = doc(300.0, "Lowest frequency of the mel in Hz; below fmax_hz.", at_least=0)
    fmax_hz: int | float | str = doc(
        "auto",
        "Highest frequency of the mel bands in Hz, up to half the sample rate; auto: "
        "half of the lowest rate among sample_rate_hz and the recordings.",
    )
    floor: float = doc(1e-5, "Smallest magnitude before the logarithm; 1e-5 is -100 dB.", above=0)
    channels: str = doc(
        "mean",
        "How several channels become one: their mean, the loudest of the recording, or the first; "
        "each: they do not, every channel is a recording of its own.",
        one_of=("mean", "loudest", "first", "each"),
    )
    detrend: str = doc(
        "none",
        "What is subtracted from each window: nothing, its mean, or its least-squares line.",
        one_of=("none", "mean", "linear"),
    )
    highpass_hz: float = doc(
        0.0,
        "Cut-off in Hz of a causal Butterworth high-pass, below half the sample rate; 0: off.",
        at_least=0,
    )
    highpass_order: int = doc(4, "Order of the high-pass.", at_least=1, at_most=12)

    def __post_init__(self) -> None:
        check_ranges(self, "signal.")
        self._check_lengths()
        self._check_frequencies()

    def _check_lengths(self) -> None:
        window = f"at most window_samples={self.window_samples}"
        require(
            self.segment_samples <= self.window_samples,
            "signal.segment_samples",
            self.segment_samples,
            window,
        )
        require(
            self.window_hop_samples <= self.window_samples,
            "signal.window_hop_samples",
            self.window_hop_samples,
            f"{window}, or sound would be skipped",
        )
        require(
            self.n_fft == 0 or 2 <= self.n_fft <= self.segment_samples,
            "signal.n_fft",
            self.n_fft,
            f"0 (the segment) or from 2 to segment_samples={self.segment_samples}",
        )

    def _check_frequencies(self) -> None:
        nyquist_hz = self.sample_rate_hz / 2
        top_hz = nyquist_hz if self.fmax_hz == "auto" else self.fmax_hz
        ok = isinstance(top_hz, int | float) and 0 < top_hz <= nyquist_hz
        allowed = f"auto, or at most half the sample rate, {nyquist_hz:g} Hz"
        require(ok, "signal.fmax_hz", self.fmax_hz, allowed)
        self.fmax_hz = "auto" if self.fmax_hz == "auto" else float(top_hz)  # one spelling, one hash
        ok, allowed = self.fmin_hz < self.top_hz, f"below {self.top_hz:g} Hz (fmax_hz)"
        require(ok, "signal.fmin_hz", self.fmin_hz, allowed)
        ok, allowed = self.highpass_hz < nyquist_hz, f"below {nyquist_hz:g} Hz"
        require(ok, "signal.highpass_hz", self.highpass_hz, allowed)

    @property
    def fft_samples(self) -> int:
        return self.n_fft or self.segment_samples

    @property
    def fft_hop_samples(self) -> int:
        return self.frame_hop_samples or max(1, self.fft_samples // 2)

    @property
    def top_hz(self) -> float:
        """fmax_hz as a number: half the sample rate while it is `auto`."""
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
        """Length of a window in seconds."""
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
        """Build from stored JSON; raises `SettingsError` naming `where` if fields do not match."""
        return from_dict(cls, values, where)
