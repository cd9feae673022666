"""The networks: log-mel in dB to class logits and a leak logit. Each carries its input layer, saved with its weights.

Frequency position is kept in all of them: a leak is told by where its noise lies, and pooling over the whole frequency axis
loses just that.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from leakdet.config import NetworkConfig
from leakdet.detection.dropout import Dropout

Result = TypeVar("Result")


class Output(NamedTuple):
    """class_logits [B, C] and leak_logit [B], the leak against the rest."""

    class_logits: Tensor
    leak_logit: Tensor


# Numbers that enter the convolutions at once in inference. A processor is twice as fast where what they make of them fits its
# cache (docs/benchmarks.md); an accelerator wants much to do at a time.
CPU_NUMBERS = 1 << 16
ACCELERATOR_NUMBERS = 1 << 20


class InputLayer(nn.Module):
    """Segments side by side as columns, averaged `time_pool` at a time, freed of level, standardised per band.

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
        """What is standardised: everything before the per-band mean and deviation."""
        columns = mel.permute(0, 2, 1, 3).flatten(2)
        if self.time_pool > 1:
            columns = functional.avg_pool1d(
                columns, self.time_pool, ceil_mode=True, count_include_pad=False
            )
        if self.level_free:
            columns = columns - columns.mean((1, 2), keepdim=True)
        return columns

    def numbers(self, mel: Float[Tensor, "_ S M T"]) -> int:
        """How many numbers a sample is afterwards."""
        _, segments, mels, frames = mel.shape
        return mels * -(-segments * frames // self.time_pool)

    @torch.no_grad()
    def fit(self, batches: Iterable[Float[Tensor, "_ S M T"]]) -> None:
        """Per-band mean and deviation over training samples. A band that never varies keeps deviation 1."""
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
        self.band_deviation.copy_(torch.where(deviation > 1e-3, deviation, 1.0))


class Network(nn.Module):
    """Input layer, body, class head and auxiliary leak head.

    Shape:
        mel [B, S, M, T] in dB -> class_logits [B, C], leak_logit [B]
    """

    def __init__(self, config: NetworkConfig, mels: int, classes: int) -> None:
        super().__init__()
        self.input = InputLayer(config, mels)
        self.cls_head: nn.Module
        self.leak_head: nn.Module

    def _heads(self, features: int, classes: int) -> None:
        self.cls_head = nn.Linear(features, classes)
        self.leak_head = nn.Linear(features, 1)

    def features(self, x: Float[Tensor, "B 1 M C"]) -> Float[Tensor, "B F"]:
        raise NotImplementedError

    def forward(self, mel: Float[Tensor, "B S M T"]) -> Output:
        features = self.features(self.input(mel))
        return Output(self.cls_head(features), self.leak_head(features).squeeze(-1))

    def infer(self, mel: Float[Tensor, "B S M T"]) -> Output:
        """As `forward`, for any number of samples of any float type on any device, piece by piece."""
        outputs = self._piecewise(self, mel)
        return Output(*map(torch.cat, zip(*outputs, strict=True)))

    def embed(self, mel: Float[Tensor, "B S M T"]) -> Float[Tensor, "B F"]:
        """Features before the heads, for the same inputs as `infer`."""
        return torch.cat(self._piecewise(lambda piece: self.features(self.input(piece)), mel))

    def _piecewise(self, compute: Callable[[Tensor], Result], mel: Tensor) -> list[Result]:
        device = self.input.band_mean.device
        most = CPU_NUMBERS if device.type == "cpu" else ACCELERATOR_NUMBERS
        pieces = torch.split(mel, max(1, most // self.input.numbers(mel)))
        return [compute(piece.to(device).float()) for piece in pieces]


class Linear(Network):
    """Logistic regression on the log-mel averaged over time: what every other network must beat."""

    def __init__(self, config: NetworkConfig, mels: int, columns: int, classes: int) -> None:
        super().__init__(config, mels, classes)
        self._heads(mels, classes)

    def features(self, x: Float[Tensor, "B 1 M C"]) -> Float[Tensor, "B F"]:
        return x.mean(-1).flatten(1)


class Paper(Network):
    """One convolution of 3x3, max-pool 2x2, dropout, one dense layer (Ma et al. 2025; its depth and width are ours)."""

    def __init__(self, config: NetworkConfig, mels: int, columns: int, classes: int) -> None:
        super().__init__(config, mels, classes)
        self.conv = _conv(1, config.conv_channels, columns)
        self.pool = nn.MaxPool2d((min(2, mels), min(2, columns)))
        pooled = (mels // min(2, mels)) * (columns // min(2, columns))
        self.dropout = Dropout(config.dropout)
        self.dense = nn.Linear(config.conv_channels * pooled, config.dense)
        self._heads(config.dense, classes)

    def features(self, x: Float[Tensor, "B 1 M C"]) -> Float[Tensor, "B F"]:
        pooled = self.pool(self.conv(x)).relu()
        return functional.relu(self.dense(self.dropout(pooled.flatten(1))))


class DualHead(Network):
    """The predecessor's network, its kernels no wider than its input: with one column it has 61,632 fewer dead weights."""

    def __init__(self, config: NetworkConfig, mels: int, columns: int, classes: int) -> None:
        super().__init__(config, mels, classes)
        self.conv1 = _conv(1, 32, columns)
        self.conv2 = _conv(32, 64, columns)
        self.conv3 = _conv(64, 128, columns)
        self.dropout = Dropout(config.dropout)
        self.fc1 = nn.Linear(2048, 256)
        self._heads(256, classes)

    def features(self, x: Float[Tensor, "B 1 M C"]) -> Float[Tensor, "B F"]:
        x = self.conv1(x).relu()
        x = functional.max_pool2d(self.conv2(x), (2, 1)).relu()
        x = functional.max_pool2d(self.conv3(x), (2, 1)).relu()
        if x.shape[2:] != (16, 1):  # else it would be averaged over single places, at length
            x = functional.adaptive_avg_pool2d(x, (16, 1))
        return functional.relu(self.fc1(self.dropout(x.flatten(1))))


class Compact(Network):
    """A convolution of stride 2, a depthwise-separable one, the mean over time, a narrow dense layer (docs/benchmarks.md).

    Frequency keeps a quarter of its positions; what varies in time has left its mark in the convolutions. Its batch norms see
    the samples of one process and one batch: unlike the other networks it learns a little differently when a batch is divided.
    """

    def __init__(self, config: NetworkConfig, mels: int, columns: int, classes: int) -> None:
        super().__init__(config, mels, classes)
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
        self._heads(config.dense, classes)

    def features(self, x: Float[Tensor, "B 1 M C"]) -> Float[Tensor, "B F"]:
        x = self.norm1(self.conv(x)).relu()
        x = self.norm2(self.pointwise(self.depthwise(x))).relu()
        pooled = self.pool(x.mean(-1))
        return functional.relu(self.dense(self.dropout(pooled.flatten(1))))


def _conv(inputs: int, outputs: int, columns: int, height: int = 3, groups: int = 1) -> nn.Conv2d:
    """`height` mels high and 3 columns wide where there are as many: outer ones would only ever meet padding otherwise."""
    width = 3 if columns >= 3 else 1
    conv = nn.Conv2d(
        inputs, outputs, (height, width), padding=(height // 2, width // 2), groups=groups
    )
    # The values of all channels side by side are read faster, also on a CPU (docs/benchmarks.md).
    return conv.to(memory_format=torch.channels_last) if groups == 1 else conv  # type: ignore[call-overload]


def make_network(config: NetworkConfig, mel_shape: tuple[int, int, int], classes: int) -> Network:
    """The network that `config` names for samples of [segments, mels, frames].

    >>> make_network(NetworkConfig(), (30, 64, 1), 2)(torch.zeros(4, 30, 64, 1)).class_logits.shape
    torch.Size([4, 2])
    """
    segments, mels, frames = mel_shape
    columns = -(-segments * frames // config.time_pool)
    match config.name:
        case "linear":
            return Linear(config, mels, columns, classes)
        case "paper":
            return Paper(config, mels, columns, classes)
        case "dual_head":
            return DualHead(config, mels, columns, classes)
        case "compact":
            return Compact(config, mels, columns, classes)
    raise ValueError(config.name)


def leak_probability(output: Output, leak_index: int, blend: float) -> Float[Tensor, " B"]:
    """blend * softmax(class_logits)[leak] + (1 - blend) * sigmoid(leak_logit), in [0, 1].

    `blend` is 1 when the auxiliary head was not trained: its weights are random then and must not count.
    """
    prob = output.class_logits.float().softmax(-1)[:, leak_index]
    return (
        prob if blend == 1.0 else blend * prob + (1.0 - blend) * output.leak_logit.float().sigmoid()
    )


@torch.no_grad()
def multiply_adds(network: Network, mel_shape: tuple[int, int, int]) -> int:
    """Multiplications that one sample of [segments, mels, frames] takes in convolutions and dense layers."""
    counted: list[int] = []

    def count(layer: nn.Module, _: tuple[Tensor, ...], found: Tensor) -> None:
        assert isinstance(layer.weight, Tensor)
        counted.append(found.numel() * layer.weight[0].numel())

    layers = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    handles = [layer.register_forward_hook(count) for layer in layers]
    network.eval()(torch.zeros(1, *mel_shape))
    for handle in handles:
        handle.remove()
    return sum(counted)
