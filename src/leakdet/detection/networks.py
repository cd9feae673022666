"""The networks: log-mel in dB to class logits and a leak logit. Each holds its own input layer.

All of them keep the position along frequency, because a leak shows in where its noise lies.
"""

from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from leakdet.config import NetworkConfig
from leakdet.config.fields import is_own
from leakdet.core.errors import SettingsError
from leakdet.core.plugins import import_named, own_code

STEPS = 1 << 16  # resolution of the dropout probability


class Dropout(nn.Dropout):
    """A `torch.nn.Dropout` whose p is rounded to 16 bits on a CPU.

    There torch draws one random number per element, 27 % of a step of `paper`; here four elements
    share a random word of 64 bits (docs/benchmarks.md).
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        dropped = round(self.p * STEPS)
        if not self.training or input.device.type != "cpu" or dropped in (0, STEPS):
            return super().forward(input)
        words = torch.empty(-(-input.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        # evenly from -STEPS / 2 to STEPS / 2 - 1
        draws = words.view(torch.int16)[: input.numel()].view(input.shape)
        kept = (draws >= dropped - STEPS // 2).to(input.dtype)
        return input * kept.mul_(STEPS / (STEPS - dropped))


MIN_DEVIATION_DB = 1e-3  # below it a band is constant


class InputLayer(nn.Module):
    """Join segments in time, average `time_pool` columns, remove the level, standardise bands.

    Shape:
        mel [B, S, M, T] in dB -> [B, 1, M, ceil(S * T / time_pool)]
    """

    band_mean: Tensor
    band_deviation: Tensor

    def __init__(self, config: NetworkConfig, mels: int) -> None:
        super().__init__()
        self.time_pool = config.time_pool
        self.level_free = config.input_norm == "level_free"
        self.register_buffer("band_mean", torch.zeros(mels))
        self.register_buffer("band_deviation", torch.ones(mels))

    def forward(self, mel: Float[Tensor, "B S M T"]) -> Float[Tensor, "B 1 M C"]:
        columns = self.columns(mel)
        return ((columns - self.band_mean[:, None]) / self.band_deviation[:, None])[:, None]

    def columns(self, mel: Float[Tensor, "B S M T"]) -> Float[Tensor, "B M C"]:
        """Columns in dB before standardisation."""
        columns = mel.permute(0, 2, 1, 3).flatten(2)
        if self.time_pool > 1:
            columns = functional.avg_pool1d(
                columns, self.time_pool, ceil_mode=True, count_include_pad=False
            )
        if self.level_free:
            columns = columns - columns.mean((1, 2), keepdim=True)
        return columns

    def elements_per_sample(self, mel: Float[Tensor, "_ S M T"]) -> int:
        """Number of output elements of one sample, M * C."""
        _, segments, mels, frames = mel.shape
        return mels * -(-segments * frames // self.time_pool)

    @torch.no_grad()
    def fit(self, batches: Iterable[Float[Tensor, "_ S M T"]]) -> None:
        """Set each band's mean and deviation from training samples; of constant bands it is 1."""
        count = 0
        total = torch.zeros_like(self.band_mean, dtype=torch.float64)
        squares = torch.zeros_like(total)
        for mel in batches:
            columns = self.columns(mel.float()).double()
            count += columns.shape[0] * columns.shape[2]
            total += columns.sum((0, 2))
            squares += columns.square().sum((0, 2))
        mean = total / max(1, count)
        deviation = (squares / max(1, count) - mean.square()).clamp(min=0).sqrt()
        self.band_mean.copy_(mean)
        self.band_deviation.copy_(torch.where(deviation > MIN_DEVIATION_DB, deviation, 1.0))


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


Result = TypeVar("Result")

# Max. input elements per inference chunk: on a CPU so that activations fit in its cache (twice as
# fast, docs/benchmarks.md), on an accelerator so that it is busy.
CPU_CHUNK_ELEMENTS = 1 << 16
ACCELERATOR_CHUNK_ELEMENTS = 1 << 20
# Of chunks that all have one shape: a lone sample takes as long as a whole chunk.
ALIKE_ELEMENTS = 1 << 13


class Output(NamedTuple):
    """class_logits [B, C] and leak_logit [B], the leak against the rest."""

    class_logits: Tensor
    leak_logit: Tensor


def leak_share(class_prob: Float[Tensor, "B C"], leaks: Sequence[int]) -> Float[Tensor, " B"]:
    """Probability of the classes `leaks` together, in [0, 1]."""
    one, *more = (class_prob[:, leak] for leak in leaks)
    return sum(more, one).clamp(max=1.0) if more else one


def leak_probability(output: Output, leaks: Sequence[int], blend: float) -> Float[Tensor, " B"]:
    """blend * sum of softmax(class_logits) over `leaks` + (1 - blend) * sigmoid(leak_logit).

    `blend` is 1 when the auxiliary head was not trained: its weights are random then and must not
    count.
    """
    prob = leak_share(output.class_logits.float().softmax(-1), leaks)
    return (
        prob if blend == 1.0 else blend * prob + (1.0 - blend) * output.leak_logit.float().sigmoid()
    )


class Network(nn.Module):
    """Input layer, body, class head and auxiliary leak head.

    A subclass builds its body, calls `add_heads`, and computes `features`. It is made with
    `(config, mels, columns, classes, **config.extra)`, where the body's input is [B, 1, mels,
    columns].

    Shape:
        mel [B, S, M, T] in dB -> class_logits [B, C], leak_logit [B]
    """

    cls_head: nn.Module
    leak_head: nn.Module

    def __init__(self, config: NetworkConfig, mels: int) -> None:
        super().__init__()
        self.input = InputLayer(config, mels)

    def add_heads(self, features: int, classes: int) -> None:
        """Both heads, on the given number of features."""
        self.cls_head = nn.Linear(features, classes)
        self.leak_head = nn.Linear(features, 1)

    def features(self, x: Float[Tensor, "B 1 M C"]) -> Float[Tensor, "B F"]:
        """The input of the heads, from the input layer's output."""
        raise NotImplementedError

    def forward(self, mel: Float[Tensor, "B S M T"]) -> Output:
        features = self.features(self.input(mel))
        return Output(self.cls_head(features), self.leak_head(features).squeeze(-1))

    def infer(self, mel: Float[Tensor, "B S M T"], alike: bool = False) -> Output:
        """Run `forward` in chunks, for any number of samples of any float type on any device.

        `alike`: on a CPU in chunks of one shape, the last one filled up, so that the numbers of a
        sample do not depend on which others it comes with: other shapes round otherwise.
        """
        count = len(mel)
        if alike and self.input.band_mean.device.type == "cpu":
            size = max(1, ALIKE_ELEMENTS // self.input.elements_per_sample(mel))
            mel = torch.cat([mel, mel.new_zeros((-count % size, *mel.shape[1:]))])
            outputs = [self(chunk.float()) for chunk in torch.split(mel, size)]
        else:
            outputs = self._in_chunks(self, mel)
        return Output(*(torch.cat(part)[:count] for part in zip(*outputs, strict=True)))

    def embed(self, mel: Float[Tensor, "B S M T"]) -> Float[Tensor, "B F"]:
        """Features before the heads, for the same inputs as `infer`."""
        return torch.cat(self._in_chunks(lambda chunk: self.features(self.input(chunk)), mel))

    def _in_chunks(self, compute: Callable[[Tensor], Result], mel: Tensor) -> list[Result]:
        device = self.input.band_mean.device
        most = CPU_CHUNK_ELEMENTS if device.type == "cpu" else ACCELERATOR_CHUNK_ELEMENTS
        chunks = torch.split(mel, max(1, most // self.input.elements_per_sample(mel)))
        return [compute(chunk.to(device).float()) for chunk in chunks]


class Linear(Network):
    """Logistic regression on the log-mel averaged over time, the least that others must beat."""

    def __init__(self, config: NetworkConfig, mels: int, columns: int, classes: int) -> None:
        super().__init__(config, mels)
        self.add_heads(mels, classes)

    def features(self, x: Float[Tensor, "B 1 M C"]) -> Float[Tensor, "B F"]:
        return x.mean(-1).flatten(1)


class Paper(Network):
    """Convolution 3x3, max-pool 2x2, dropout, dense layer, after [Ma et al. 2025].

    The paper leaves depth and width open; those here are leakdet's.
    """

    def __init__(self, config: NetworkConfig, mels: int, columns: int, classes: int) -> None:
        super().__init__(config, mels)
        self.conv = _conv(1, config.conv_channels, columns)
        self.pool = nn.MaxPool2d((min(2, mels), min(2, columns)))
        pooled = (mels // min(2, mels)) * (columns // min(2, columns))
        self.dropout = Dropout(config.dropout)
        self.dense = nn.Linear(config.conv_channels * pooled, config.dense)
        self.add_heads(config.dense, classes)

    def features(self, x: Float[Tensor, "B 1 M C"]) -> Float[Tensor, "B F"]:
        pooled = self.pool(self.conv(x)).relu()
        return functional.relu(self.dense(self.dropout(pooled.flatten(1))))


class DualHead(Network):
    """The network of AILH, its kernels no wider than its input.

    With one column that saves 61,632 weights that would only ever see padding.
    """

    def __init__(self, config: NetworkConfig, mels: int, columns: int, classes: int) -> None:
        super().__init__(config, mels)
        self.conv1 = _conv(1, 32, columns)
        self.conv2 = _conv(32, 64, columns)
        self.conv3 = _conv(64, 128, columns)
        self.dropout = Dropout(config.dropout)
        self.fc1 = nn.Linear(2048, 256)
        self.add_heads(256, classes)

    def features(self, x: Float[Tensor, "B 1 M C"]) -> Float[Tensor, "B F"]:
        x = self.conv1(x).relu()
        x = functional.max_pool2d(self.conv2(x), (2, 1)).relu()
        x = functional.max_pool2d(self.conv3(x), (2, 1)).relu()
        if x.shape[2:] != (16, 1):  # else averaging is slow and changes nothing
            x = functional.adaptive_avg_pool2d(x, (16, 1))
        return functional.relu(self.fc1(self.dropout(x.flatten(1))))


class Compact(Network):
    """Convolution of stride 2, depthwise-separable one, mean over time, narrow dense layer.

    A quarter of the positions along frequency remain. Batch norm sees the samples of one process
    and one batch: unlike the others, this network trains slightly differently when a batch is
    divided.
    """

    def __init__(self, config: NetworkConfig, mels: int, columns: int, classes: int) -> None:
        super().__init__(config, mels)
        channels, stride = config.conv_channels, (min(2, mels), min(2, columns))
        height, width = -(-mels // stride[0]), -(-columns // stride[1])
        self.conv = _conv(1, channels, columns, height=5)
        self.conv.stride = stride
        self.norm1 = nn.BatchNorm2d(channels)
        self.depthwise = _conv(channels, channels, width, groups=channels)
        self.pointwise = nn.Conv2d(channels, 2 * channels, 1)
        self.norm2 = nn.BatchNorm2d(2 * channels)
        self.pool = nn.AvgPool1d(min(2, height))
        self.dropout = Dropout(config.dropout)
        self.dense = nn.Linear(2 * channels * (height // min(2, height)), config.dense)
        self.add_heads(config.dense, classes)

    def features(self, x: Float[Tensor, "B 1 M C"]) -> Float[Tensor, "B F"]:
        x = self.norm1(self.conv(x)).relu()
        x = self.norm2(self.pointwise(self.depthwise(x))).relu()
        pooled = self.pool(x.mean(-1))
        return functional.relu(self.dense(self.dropout(pooled.flatten(1))))


def _conv(inputs: int, outputs: int, columns: int, height: int = 3, groups: int = 1) -> nn.Conv2d:
    """Convolution of `height` mels by 3 columns; by 1 where the others would see only padding."""
    width = 3 if columns >= 3 else 1
    conv = nn.Conv2d(
        inputs, outputs, (height, width), padding=(height // 2, width // 2), groups=groups
    )
    # channels last is faster, also on a CPU (docs/benchmarks.md)
    return conv.to(memory_format=torch.channels_last) if groups == 1 else conv  # type: ignore[call-overload]


def make_network(config: NetworkConfig, mel_shape: tuple[int, int, int], classes: int) -> Network:
    """The network that `config` names for samples of [segments, mels, frames].

    Raises:
        SettingsError: as `network_class`, or the user's network gives outputs of other shapes.

    >>> make_network(NetworkConfig(), (30, 64, 1), 2)(torch.zeros(4, 30, 64, 1)).class_logits.shape
    torch.Size([4, 2])
    """
    segments, mels, frames = mel_shape
    columns = -(-segments * frames // config.time_pool)
    make = network_class(config)
    if not is_own(config.name):
        return make(config, mels, columns, classes, **config.extra)
    with own_code("network.name", config.name):
        network = make(config, mels, columns, classes, **config.extra)
        _check_outputs(network, config.name, mel_shape, classes)
    return network


def network_class(config: NetworkConfig) -> Callable[..., Network]:
    """The class that `config` names; a name `package.module:Class` is imported.

    Raises:
        SettingsError: there is no such class, it is no `Network`, or it does not take
            `config.extra`.
    """
    match config.name:
        case "linear":
            return Linear
        case "paper":
            return Paper
        case "dual_head":
            return DualHead
        case "compact":
            return Compact
    own = import_named("network.name", config.name)
    if not (isinstance(own, type) and issubclass(own, Network)):
        raise SettingsError(
            f"network.name={config.name}: it is no subclass of {Network.__module__}.Network."
        )
    try:
        signature(own).bind(config, 1, 1, 2, **config.extra)
    except TypeError as error:
        raise SettingsError(
            f"network.extra={config.extra}: {config.name}(config, mels, columns, classes, "
            f"**network.extra) cannot be called ({error})."
        ) from error
    return own


@torch.no_grad()
def _check_outputs(
    network: Network, name: str, mel_shape: tuple[int, int, int], classes: int
) -> None:
    if type(network).forward is Network.forward and not hasattr(network, "cls_head"):
        raise SettingsError(
            f"network.name={name}: its heads are missing; __init__ must call "
            "self.add_heads(features, classes)."
        )
    network.eval()
    sample, heads = torch.zeros(2, *mel_shape), getattr(network, "cls_head", None)
    if type(network).forward is Network.forward and isinstance(heads, nn.Linear):
        shape = tuple(network.features(network.input(sample)).shape)
        if shape != (2, heads.in_features):
            raise SettingsError(
                f"network.name={name}: for 2 samples its features have the shape {shape}, and "
                f"self.add_heads({heads.in_features}, classes) says {(2, heads.in_features)}."
            )
    output = network(sample)
    network.train()
    shapes = [tuple(logits.shape) for logits in output] if isinstance(output, Output) else output
    if shapes != [(2, classes), (2,)]:
        raise SettingsError(
            f"network.name={name}: for 2 samples and {classes} classes it gives {shapes}; it must "
            f"give Output(class_logits, leak_logit) of shapes [(2, {classes}), (2,)]."
        )
