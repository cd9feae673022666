"""The sound of a recording, whatever its level: mean and spread over time of its mel bands."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor


def window_moments(mel: Float[Tensor, "W S M T"]) -> Float[np.ndarray, "W 2 M"]:
    """Mean and mean square of each band in dB over the time of each window, float64."""
    # by NumPy and in place, since predict waits for it: torch takes half as long again
    windows, _, bands, _ = mel.shape
    in_time = mel.to(torch.float32, copy=True).cpu().transpose(2, 3)
    level: np.ndarray = in_time.reshape(windows, -1, bands).numpy()
    share = np.full(level.shape[1], 1.0 / level.shape[1], np.float32)
    mean: np.ndarray = share @ level
    level -= mean[:, None]
    level *= level
    moments = np.stack([mean, share @ level], axis=1).astype(np.float64)
    moments[:, 1] += np.square(moments[:, 0])
    return moments


def band_features(moments: Float[np.ndarray, "*R 2 M"]) -> Float[np.ndarray, "*R F"]:
    """Features of recordings from the moments of their windows, averaged over the windows.

    F = 2 M: the level-free mean of each band (minus the mean of all), then its standard deviation
    over time, all in dB.
    """
    mean, square = moments[..., 0, :], moments[..., 1, :]
    features = np.empty((*mean.shape[:-1], 2 * mean.shape[-1]))
    features[..., : mean.shape[-1]] = mean - mean.mean(-1, keepdims=True)
    variance = np.maximum(0.0, square - mean * mean)
    np.sqrt(variance, out=features[..., mean.shape[-1] :])
    return features


class FeatureSums:
    """Features of recordings whose windows come block after block, in bounded memory."""

    def __init__(self, recording_offsets: Int[np.ndarray, " offsets"], bands: int) -> None:
        self._offsets = recording_offsets
        self._total = np.zeros((len(recording_offsets) - 1, 2, bands))
        self._position = 0

    def add(self, mel: Float[Tensor, "W S M T"]) -> None:
        """Take the next windows, which may end one recording and begin others."""
        numbers = self._position + np.arange(len(mel))
        recording = np.searchsorted(self._offsets, numbers, side="right") - 1
        first = np.flatnonzero(np.diff(recording, prepend=-1))
        self._total[recording[first]] += np.add.reduceat(window_moments(mel), first)
        self._position += len(mel)

    def features(self) -> Float[np.ndarray, "R F"]:
        """Features of all recordings, whose windows have all come."""
        return band_features(self._total / np.diff(self._offsets)[:, None, None])
