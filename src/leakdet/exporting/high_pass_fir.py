"""The causal high-pass of `acoustics/audio.py` as a convolution, which needs no state."""

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn
from torch.nn import functional

from leakdet.config import SignalConfig

LEFT_OUT = 1e-14  # of the energy of the impulse response; its root, 1e-7, of the amplitude
LONGEST_S = 10.0


def impulse_response(signal: SignalConfig) -> Float64[np.ndarray, " T"]:
    """The high-pass's response to an impulse, but for the end that float32 does not hold."""
    from scipy.signal import butter, sosfilt

    rate_hz = signal.sample_rate_hz
    sections = butter(
        signal.highpass_order, signal.highpass_hz, "highpass", fs=rate_hz, output="sos"
    )
    response = sosfilt(sections, np.eye(1, int(LONGEST_S * rate_hz))[0])
    rest = np.cumsum(response[::-1] ** 2)[::-1]
    taps = int(np.argmax(rest < LEFT_OUT * rest[0])) or len(response)
    return np.asarray(response[:taps])


class HighPass(nn.Module):
    """High-pass without a step at the start: the first value is taken to have been there before.

    Shape:
        sound [1, N] -> [1, N]
    """

    kernel: Tensor

    def __init__(self, signal: SignalConfig) -> None:
        super().__init__()
        response = impulse_response(signal)[::-1].copy()
        self.register_buffer("kernel", torch.from_numpy(response).float()[None, None], False)

    @property
    def taps(self) -> int:
        return self.kernel.shape[-1]

    def forward(self, sound: Float[Tensor, "1 N"]) -> Float[Tensor, "1 N"]:
        level = functional.pad(sound - sound[:, :1], (self.taps - 1, 0))
        return functional.conv1d(level[None], self.kernel)[0]
