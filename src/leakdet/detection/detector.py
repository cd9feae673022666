"""A trained network with all that a verdict needs: from log-mel to probabilities of windows."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from leakdet.config import SignalConfig
from leakdet.detection.decision import DecisionRule
from leakdet.detection.familiarity import SpectralReference
from leakdet.detection.labels import LabelMap
from leakdet.detection.met import MetRecordings
from leakdet.detection.networks import Network, leak_probability
from leakdet.detection.source_rates import SourceRates
from leakdet.detection.stored_scores import ValidationScores


class WindowScores(NamedTuple):
    """Probabilities of W windows, float32; `class_prob` is None of a binary network."""

    leak_prob: Float[Tensor, " W"]
    class_prob: Float[Tensor, "W C"] | None


@dataclass
class MelDetector:
    """The content of a model file. `signal` is None where the training store did not say it."""

    network: Network
    labels: LabelMap
    mel_shape: tuple[int, int, int]  # [segments, mels, frames] of a window
    unit: str  # window | segment: what the network takes as one sample
    blend: float
    rule: DecisionRule
    signal: SignalConfig | None
    card: dict[str, Any]  # provenance, metrics and all else the file says of itself
    file_hash: str = ""  # the first 12 digits of the file's SHA-256
    met: MetRecordings | None = None  # None: the file does not say what trained the model
    validation: ValidationScores | None = None  # None: the file keeps none
    reference: SpectralReference | None = None  # None: nor what its training sounded like
    tested: ValidationScores | None = None  # of its test recordings; None: the file keeps none
    sources: SourceRates | None = None  # None: the file does not say which loggers trained it

    @property
    def device(self) -> str:
        """Where it computes, such as `cpu` or `cuda:0`."""
        return str(next(self.network.parameters()).device)

    @property
    def _evaluating(self) -> Network:
        # going through all modules takes a twentieth of the time of a recording of 1 s
        return self.network.eval() if self.network.training else self.network

    def window_prob(self, mel: Float[Tensor, "W S M T"]) -> Float[Tensor, " W"]:
        """Leak probability of each window, float32."""
        return self.window_scores(mel).leak_prob

    @torch.inference_mode()
    def window_scores(self, mel: Float[Tensor, "W S M T"], alike: bool = False) -> "WindowScores":
        """Leak probability and, of a multiclass network, class probabilities of each window.

        `alike`: independent of the other windows to the last bit, as `Network.infer` says.
        """
        output, windows = self._evaluating.infer(as_samples(mel, self.unit), alike), len(mel)
        leak = window_mean(leak_probability(output, self.labels.leaks, self.blend), windows)
        if not self.labels.tells_classes:
            return WindowScores(leak.cpu(), None)
        classes = window_mean(output.class_logits.float().softmax(-1), windows)
        return WindowScores(leak.cpu(), classes.cpu())

    @torch.inference_mode()
    def embed(self, mel: Float[Tensor, "W S M T"]) -> Float[Tensor, "W F"]:
        """Features before the heads, float32; of segments, their mean over the window."""
        features = self._evaluating.embed(as_samples(mel, self.unit))
        return features.view(len(mel), -1, features.shape[-1]).mean(1).cpu()


def as_samples(mel: Float[Tensor, "W S M T"], unit: str) -> Float[Tensor, "B U M T"]:
    """Windows as the network takes them: whole, or one sample per segment."""
    return mel.flatten(0, 1)[:, None] if unit == "segment" else mel


def sample_shape(mel_shape: tuple[int, int, int], unit: str) -> tuple[int, int, int]:
    """[segments, mels, frames] of one sample."""
    return (1, *mel_shape[1:]) if unit == "segment" else mel_shape


def window_mean(sample_prob: Float[Tensor, "B *C"], windows: int) -> Float[Tensor, "W *C"]:
    """Mean over the samples of each window; where a sample is a window, nothing changes."""
    if not windows:
        return sample_prob
    return torch.unflatten(sample_prob, 0, (windows, -1)).mean(1)  # also of no classes
