"""Log-mel by matrices of real numbers, as a runtime without an FFT computes it.

A DFT of N = A B points in two stages (Cooley and Tukey 1965): B interleaved DFTs of A points, a
grouped convolution of the sound, then DFTs of B points across them, a product with one matrix.
"""

from math import gcd

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn
from torch.nn import functional

from leakdet.acoustics.mel import mel_filterbank
from leakdet.config import SignalConfig


def balanced_stride(points: int, hop: int) -> int:
    """B of the two stages with the fewest terms in their sums; it divides the points and the hop.

    Short sums are fast, and as exact in float32 as those of an FFT.

    >>> balanced_stride(1024, 512), balanced_stride(512, 250), balanced_stride(499, 250)
    (32, 2, 1)
    """
    common = gcd(points, hop)
    divisors = [number for number in range(1, common + 1) if common % number == 0]
    return min(divisors, key=lambda b: points // b + b)


class StagedMel(nn.Module):
    """Log-mel in dB of frames at every `hop` sample points; equals `LogMel`.

    Shape:
        sound [R, N] -> [R, n_mels, F], F = 1 + (N - fft_samples) // hop
    """

    first: Tensor
    second: Tensor
    filters: Tensor

    def __init__(self, signal: SignalConfig, hop: int) -> None:
        super().__init__()
        points = signal.fft_samples
        self.points, self.floor = points, signal.floor
        self.b = balanced_stride(points, hop)
        self.a, self.hop = points // self.b, hop
        for name, values in (
            ("first", _first_stage(points, self.b)),
            ("second", _second_stage(self.b)),
            ("filters", _ordered_filters(signal, self.b)),
        ):
            self.register_buffer(name, torch.from_numpy(values).float(), persistent=False)

    def forward(self, sound: Float[Tensor, "R N"]) -> Float[Tensor, "R M F"]:
        (rows, length), a, b = sound.shape, self.a, self.b
        frames = 1 + (length - self.points) // self.hop
        sound = functional.pad(sound, (0, -length % b))
        interleaved = sound.view(rows, -1, b).transpose(1, 2)
        half = functional.conv1d(interleaved, self.first, stride=self.hop // b, groups=b)
        half = half[..., :frames].reshape(rows, b, 2 * (a // 2 + 1), frames)
        half = half.transpose(1, 2).reshape(rows, 2, a // 2 + 1, b, frames)
        real, imaginary = half[:, 0], half[:, 1]
        if b > 1:
            cosine, sine = self.second
            real, imaginary = (
                cosine @ real + sine @ imaginary,
                cosine @ imaginary - sine @ real,
            )
        magnitude = (real.square() + imaginary.square()).sqrt()
        mel = self.filters @ magnitude.flatten(1, 2)
        return mel.clamp(min=self.floor).log10() * 20.0


def _turns(product: np.ndarray, points: int) -> np.ndarray:
    """exp(-2 pi i product / points); reduced first, so that no angle is large."""
    return np.asarray(np.exp(-2j * np.pi * (product % points) / points))


def _first_stage(points: int, b: int) -> Float64[np.ndarray, "O 1 A"]:
    """Kernels of the grouped convolution: window, DFT of A points, and the twiddle factors."""
    a = points // b
    row, k, n = np.arange(b)[:, None, None], np.arange(a // 2 + 1)[:, None], np.arange(a)
    hann = np.sin(np.pi * (b * n + row) / points) ** 2
    kernels = hann * _turns(n * k, a) * _turns(row * k, points)
    return np.stack([kernels.real, kernels.imag], axis=1).reshape(-1, 1, a)


def _second_stage(b: int) -> Float64[np.ndarray, "2 B B"]:
    """Cosines and sines of a DFT of B points: it multiplies by cos - i sin."""
    turns = _turns(np.outer(np.arange(b), np.arange(b)), b)
    return np.stack([turns.real, -turns.imag])


def _ordered_filters(signal: SignalConfig, b: int) -> Float64[np.ndarray, "M K"]:
    """Mel filters for the bins in the order that both stages give them.

    Row k of the first stage holds the bins k + A j. A bin whose k is above A / 2 is the conjugate
    of bin N - bin, whose k is not. Rows of bins that are not needed are zero.
    """
    filters, points = mel_filterbank(signal), signal.fft_samples
    a = points // b
    ordered = np.zeros((a // 2 + 1, b, filters.shape[1]))
    for number, row in enumerate(filters):
        bin_ = number if number % a <= a // 2 else points - number
        ordered[bin_ % a, bin_ // a] = row
    return np.ascontiguousarray(ordered.reshape(-1, filters.shape[1]).T)
