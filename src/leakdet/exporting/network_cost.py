"""What a network asks of a small processor: parameters, multiply-adds and memory."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leakdet.detection.detector import MelDetector, as_samples


@dataclass
class NetworkCost:
    """Of one window, behind its log-mel.

    `peak_values` is the largest number of values that a layer reads and writes: the working memory
    where layers run one after the other, in bytes of the precision.
    """

    parameters: int = 0
    multiply_adds: int = 0
    peak_values: int = 0

    def sentence(self) -> str:
        return (
            f"{self.parameters:,} parameters, {self.multiply_adds:,} multiply-adds a window, "
            f"{self.peak_values:,} values of a layer and its input at most"
        )


@torch.no_grad()
def network_cost(detector: MelDetector) -> NetworkCost:
    """Count by running one window of zeros through the network."""
    network, cost = detector.network.eval(), NetworkCost()
    cost.parameters = sum(parameter.numel() for parameter in network.parameters())

    def count(layer: nn.Module, inputs: tuple[Tensor, ...], output: Any) -> None:
        if not isinstance(output, Tensor):
            return
        cost.peak_values = max(cost.peak_values, inputs[0].numel() + output.numel())
        if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Linear):
            weight = layer.weight
            cost.multiply_adds += output.numel() * (weight.numel() // weight.shape[0])

    layers = [module for module in network.modules() if not list(module.children())]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    try:
        network(as_samples(torch.zeros(1, *detector.mel_shape), detector.unit))
    finally:
        for hook in hooks:
            hook.remove()
    return cost
