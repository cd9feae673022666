"""A detector as one network of standard operators, from sound to verdict.

It does what `leakdet predict` does: high-pass, windows, log-mel, network, pooling and rule, these
as in `detection/decision.py` and `detection/familiarity.py`. The DFT of N = A B points has two
stages (Cooley and Tukey 1965): B interleaved DFTs of A points, a grouped convolution of the sound,
then DFTs of B points across them, a product with one matrix.
"""

from copy import deepcopy
from fractions import Fraction
from math import gcd
from typing import NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor, nn
from torch.nn import functional

from leakdet.acoustics.measures import DEAD_SHARE, SILENCE, STEP, shortest_run
from leakdet.acoustics.mel import detrended, mel_filterbank
from leakdet.config import SignalConfig
from leakdet.detection.calibration import SATURATION
from leakdet.detection.decision import LIMITS
from leakdet.detection.detector import MelDetector, as_samples
from leakdet.detection.familiarity import SpectralReference
from leakdet.detection.networks import Output, leak_probability


def live_windows(
    windows: Float[Tensor, "W N"],
    sound: Float[Tensor, " L"],
    starts: Int[Tensor, " W"],
    rate_hz: int,
) -> Bool[Tensor, " W"]:
    """True for windows that are neither silent nor, for a tenth or more, in dead runs.

    `windows` are high-passed if the settings ask for it; dead runs are those of the `sound` before.
    """
    length = windows.shape[-1]
    deviation = (windows - windows.mean(-1, keepdim=True)).square().mean(-1)
    before = functional.pad(in_dead_runs(sound, rate_hz).cumsum(0), (1, 0))
    dead = before[starts + length] - before[starts]
    live: Tensor = (deviation >= SILENCE**2) & (dead <= DEAD_SHARE * length)
    return live


def in_dead_runs(sound: Float[Tensor, " L"], rate_hz: int) -> Float[Tensor, " L"]:
    """1 for each sample point in a run of one value of at least 10 ms, else 0."""
    repeats = shortest_run(rate_hz) - 1
    same = ((sound[1:] - sound[:-1]).abs() < STEP).to(sound.dtype)
    whole_runs = 1.0 - _running_max(1.0 - same, repeats)
    return _running_max(functional.pad(whole_runs, (repeats, repeats)), repeats + 1)


def _running_max(values: Float[Tensor, " L"], width: int) -> Float[Tensor, " K"]:
    """Largest of each `width` neighbours [L - width + 1], by doubling."""
    span = 1
    while 2 * span <= width:
        values = torch.maximum(values[:-span], values[span:])
        span *= 2
    rest = width - span
    return torch.maximum(values[:-rest], values[rest:]) if rest else values


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


UNDECIDED = -1
LEVEL_DB = -50.0  # moments count from here, so that float32 holds them


class Pooled(NamedTuple):
    """A verdict: leak 1, no leak 0, undecided -1."""

    leak_prob: Float[Tensor, ""]
    decision: Int[Tensor, ""]
    familiarity: Float[Tensor, ""]
    moments: Float[Tensor, "3 M"]


class PooledVerdict(nn.Module):
    """Pool the live windows of a recording and apply the rule; NaN where there are none."""

    def __init__(self, detector: MelDetector) -> None:
        super().__init__()
        self.rule = rule = detector.rule
        self.share = Fraction(rule.vote_fraction).limit_denominator(1_000_000)
        self.threshold = float32_at_least(rule.threshold)
        self.limit = LIMITS[rule.unfamiliar]
        lower, upper = rule.doubt_limits
        self.doubt = (-float32_at_least(-lower), float32_at_least(upper)) if rule.doubt else None
        self.reference = Familiarity(detector.reference) if detector.reference else None

    def forward(
        self,
        prob: Float[Tensor, " W"],
        live: Bool[Tensor, " W"],
        mel: Float[Tensor, "W S M T"],
        earlier_moments: Float[Tensor, "3 M"],
    ) -> Pooled:
        leak_prob = self.pooled(prob, live)
        familiarity = torch.full((), torch.nan)
        unfamiliar = torch.zeros((), dtype=torch.bool)
        moments = earlier_moments + window_moments(mel, live)
        if self.reference is not None:
            familiarity = self.reference(moments)
            unfamiliar = familiarity > self.limit
        undecided = leak_prob.isnan() | unfamiliar
        if self.doubt is not None:
            undecided |= (leak_prob > self.doubt[0]) & (leak_prob < self.doubt[1])
        leak = (leak_prob >= self.threshold).to(torch.int64)
        decision = torch.where(undecided, UNDECIDED, leak)
        return Pooled(leak_prob, decision, familiarity, moments)

    def pooled(self, prob: Float[Tensor, " W"], live: Bool[Tensor, " W"]) -> Float[Tensor, ""]:
        """The score of the live windows, NaN without any."""
        count = live.to(prob.dtype).sum()
        match self.rule.pooling:
            case "mean":
                return torch.where(live, prob, 0.0).sum() / count
            case "logit_mean":
                odds = prob.clamp(min=SATURATION).log() - (1.0 - prob).clamp(min=SATURATION).log()
                return (torch.where(live, odds, 0.0).sum() / count).sigmoid()
        windows = live.to(torch.int64).sum()
        top, bottom = self.share.numerator, self.share.denominator
        needed = ((windows * top + bottom - 1) // bottom).clamp(min=1)
        ranked = torch.where(live, prob, -1.0).sort(descending=True).values
        score = ranked[needed - 1]
        return torch.where(score < 0.0, torch.nan, score)


def float32_at_least(value: float) -> float:
    """The smallest float32 that is not below; a float32 reaches it where it reaches the value."""
    near = np.float32(value)
    return float(near if float(near) >= value else np.nextafter(near, np.float32(2.0)))


def window_moments(mel: Float[Tensor, "W S M T"], live: Bool[Tensor, " W"]) -> Float[Tensor, "3 M"]:
    """Sums over the live windows of each band's mean and mean square, and of 1."""
    level = mel - LEVEL_DB
    mean = level.mean(dim=(1, 3))
    square = (level - mean[:, None, :, None]).square().mean(dim=(1, 3)) + mean.square()
    of_windows = torch.stack([mean, square, torch.ones_like(mean)], dim=1)
    return torch.where(live[:, None, None], of_windows, 0.0).sum(0)


class Familiarity(nn.Module):
    """Distance to the training recordings over its limit, from the moments of a recording."""

    kept: Tensor
    means: Tensor
    whitening: Tensor

    def __init__(self, reference: SpectralReference) -> None:
        super().__init__()
        whitened = reference.means @ reference.whitening
        for name, value in (
            ("kept", reference.kept),
            ("means", whitened),
            ("whitening", reference.whitening),
        ):
            self.register_buffer(name, torch.from_numpy(value).float(), persistent=False)
        self.nearest_db = float(reference.facts["nearest_db"])
        self.mahalanobis = float(reference.facts["mahalanobis"])

    def forward(self, moments: Float[Tensor, "3 M"]) -> Float[Tensor, ""]:
        mean, square = moments[0] / moments[2], moments[1] / moments[2]
        spread = (square - mean.square()).clamp(min=0.0).sqrt()
        features = torch.cat([mean - mean.mean(), spread])
        nearest = (features - self.kept).square().mean(1).min().sqrt() / self.nearest_db
        distance = (features @ self.whitening - self.means).square().sum(1).min().sqrt()
        return (nearest * distance / self.mahalanobis).sqrt()


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
