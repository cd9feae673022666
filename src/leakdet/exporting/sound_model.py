"""A detector as one network from sound to verdict, of operations that every runtime has.

What `leakdet predict` does: high-pass, windows, log-mel, network, pooling and rule.
"""

from copy import deepcopy
from math import gcd
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from leakdet.acoustics.mel import detrended
from leakdet.config import SignalConfig
from leakdet.detection.detector import MelDetector, as_samples
from leakdet.detection.leak_classes import leak_probability
from leakdet.detection.networks import Output
from leakdet.exporting.high_pass_fir import HighPass
from leakdet.exporting.live_windows import live_windows
from leakdet.exporting.pooled_verdict import PooledVerdict
from leakdet.exporting.staged_mel import StagedMel


class Scores(NamedTuple):
    """What the network says of windows; `class_prob` [W, 0] where it tells no classes."""

    window_prob: Float[Tensor, " W"]
    class_prob: Float[Tensor, "W C"]


class MelModel(nn.Module):
    """Log-mel of windows to probabilities, as `MelDetector.window_scores`.

    Shape:
        mel [W, S, M, T] -> window_prob [W], class_prob [W, C]
    """

    def __init__(self, detector: MelDetector, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.network = deepcopy(detector.network).eval().to(dtype)
        self.dtype, self.unit, self.blend = dtype, detector.unit, detector.blend
        self.leaks = tuple(detector.labels.leaks)
        self.tells_classes = detector.labels.tells_classes

    def forward(self, mel: Float[Tensor, "W S M T"]) -> Scores:
        output = self.network(as_samples(mel, self.unit).to(self.dtype))
        output = Output(output.class_logits.float(), output.leak_logit.float())
        leak = leak_probability(output, self.leaks, self.blend)
        classes = output.class_logits.softmax(-1)
        if self.unit == "segment":  # as `window_mean`
            leak = torch.unflatten(leak, 0, mel.shape[:2]).mean(1)
            classes = torch.unflatten(classes, 0, mel.shape[:2]).mean(1)
        return Scores(leak, classes if self.tells_classes else classes[:, :0])


class FrontEnd(nn.Module):
    """Sound of windows to log-mel, rounded to float16 as in a store.

    Shape:
        windows [W, N] -> [W, S, M, T]
    """

    def __init__(self, signal: SignalConfig) -> None:
        super().__init__()
        self.signal = signal
        hop = signal.segment_hop_samples if signal.frames == 1 else signal.fft_hop_samples
        self.log_mel = StagedMel(signal, hop)

    def forward(self, windows: Float[Tensor, "W N"]) -> Float[Tensor, "W S M T"]:
        signal = self.signal
        sound = detrended(windows, signal.detrend)
        if signal.frames == 1:
            mel = self.log_mel(sound)[..., : signal.segments].transpose(1, 2)[..., None]
        else:
            segments = sound.unfold(-1, signal.segment_samples, signal.segment_hop_samples)
            mel = self.log_mel(segments.flatten(0, 1)).unflatten(0, (-1, signal.segments))
        rounded: Tensor = mel.half().float()
        return rounded


class SoundOutputs(NamedTuple):
    """Outputs in their order; those that a model does not have are left out of its file."""

    window_prob: Float[Tensor, " W"]
    window_start_s: Float[Tensor, " W"]
    window_live: Bool[Tensor, " W"]
    leak_prob: Float[Tensor, ""]
    decision: Int[Tensor, ""]
    familiarity: Float[Tensor, ""]
    moments: Float[Tensor, "3 M"]
    class_prob: Float[Tensor, "W C"]
    mel: Float[Tensor, "W S M T"]
    scored_prob: Float[Tensor, " W"]
    scored_classes: Float[Tensor, "W C"]


class SoundModel(nn.Module):
    """Sound at the model's rate to probabilities and verdict.

    A sound without a whole window gives NaN, and the decision -1. A long recording may come in
    pieces: `earlier_moments` are those that the piece before gave, and the first `lead_windows`
    were scored with that piece, so that they count no more; else both are zero.

    Shape:
        sound [1, N], earlier_moments [3, M], lead_windows [1] -> `SoundOutputs`
    """

    def __init__(self, detector: MelDetector, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        signal = detector.signal
        assert signal is not None  # `export` refuses a model without one
        self.signal = signal
        self.high_pass = HighPass(signal) if signal.highpass_hz > 0 else nn.Identity()
        self.front_end = FrontEnd(signal)
        self.mel_model = MelModel(detector, dtype)
        self.verdict = PooledVerdict(detector)

    @property
    def settling_samples(self) -> int:
        """Sample points before a sound's windows on which they depend."""
        return self.high_pass.taps if isinstance(self.high_pass, HighPass) else 0

    def forward(
        self,
        sound: Float[Tensor, "1 N"],
        earlier_moments: Float[Tensor, "3 M"],
        lead_windows: Int[Tensor, "1"],
    ) -> SoundOutputs:
        signal, length = self.signal, sound.shape[-1]
        window, hop = signal.window_samples, signal.window_hop_samples
        # integers alone: a branch on the length would be decided when the model is exported
        whole = 1 - 1 // (1 + length // window)  # 0 of a sound shorter than a window, else 1
        tail = max(0, hop - window // 2 - 1)
        count = 1 + (whole * (length - window + tail)) // hop
        last = whole * (length - window)
        numbers = torch.arange(count)
        starts = (numbers * hop).clamp(max=last)
        # never two equal neighbours, which would lengthen a dead run
        padding = 2.0 + torch.arange(window, dtype=sound.dtype)
        padded = torch.cat([sound, padding[None]], dim=1)
        filtered = self.high_pass(padded)[0]
        windows = windows_of(filtered, numbers, last, signal)
        live = live_windows(windows, padded[0], starts, signal.sample_rate_hz)
        mel = self.front_end(windows)
        scored, classes = self.mel_model(mel)
        nothing = torch.where(torch.full((1,), whole) == 0, torch.nan, 0.0)
        prob = scored + nothing
        live = live & (nothing == 0.0) & (numbers >= lead_windows)
        pooled = self.verdict(prob, live, mel, earlier_moments)
        return SoundOutputs(
            prob,
            starts.float() / signal.sample_rate_hz,
            live,
            pooled.leak_prob,
            pooled.decision,
            pooled.familiarity,
            pooled.moments,
            classes + nothing[:, None],
            mel,
            scored,
            classes,
        )


def windows_of(
    sound: Float[Tensor, " L"],
    numbers: Int[Tensor, " W"],
    last: int | torch.SymInt,
    signal: SignalConfig,
) -> Float[Tensor, "W N"]:
    """Windows at every hop, and where the last one is aligned to the end, at `last`.

    They are gathered in pieces as long as the hops allow: single sample points take far longer.
    """
    window, hop = signal.window_samples, signal.window_hop_samples
    piece = gcd(window, hop)
    pieces = sound[: sound.shape[0] // piece * piece].view(-1, piece)
    tail = sound[last : last + window].view(-1, piece)
    at_hop = cast(Tensor, numbers * hop <= last)
    first = torch.where(at_hop, numbers * (hop // piece), pieces.shape[0])
    places = first[:, None] + torch.arange(window // piece)
    return torch.cat([pieces, tail]).index_select(0, places.flatten()).view(-1, window)
