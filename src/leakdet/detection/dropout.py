"""Dropout whose chance costs little on a CPU."""

import torch
from torch import Tensor, nn

STEPS = 1 << 16  # probabilities are told apart to 1 / STEPS


class Dropout(nn.Dropout):
    """As torch's: each number is zeroed with probability p (to 16 bits) in training, the others scaled so that means stay.

    On a CPU torch draws the numbers' fates one by one, 27 % of a step of `paper`; here four share a random word of 64 bits
    (docs/benchmarks.md). Elsewhere, and outside training, it is torch's.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        dropped = round(self.p * STEPS)
        if not self.training or input.device.type != "cpu" or dropped in (0, STEPS):
            return super().forward(input)
        words = torch.empty(-(-input.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        # evenly from -STEPS / 2 to STEPS / 2 - 1
        fates = words.view(torch.int16)[: input.numel()].view(input.shape)
        kept = (fates >= dropped - STEPS // 2).to(input.dtype)
        return input * kept.mul_(STEPS / (STEPS - dropped))
