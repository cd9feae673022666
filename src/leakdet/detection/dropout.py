"""Dropout with a cheaper random mask on a CPU."""

import torch
from torch import Tensor, nn

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
