"""Layer between log-mel in dB and a network's body; its statistics are saved with the weights."""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from leakdet.config import NetworkConfig

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
