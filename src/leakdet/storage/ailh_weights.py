"""Trained weights of AILH (`best.pth`) as a `dual_head` network with equal outputs.

Its kernels are three columns wide although its input has one: only the middle column ever met data,
and is kept. The file names neither classes nor signal; both are those of the AILH scripts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leakdet.config import NetworkConfig, SignalConfig
from leakdet.detection.labels import BINARY_NAMES, LabelMap
from leakdet.errors import InputError
from leakdet.storage.torch_file import read_torch

AILH_SIGNAL = SignalConfig(
    sample_rate_hz=4096,
    window_samples=1024,
    window_hop_samples=1024,
    segment_samples=512,
    segment_hop_samples=512,
    fmin_hz=0.0,
    fmax_hz=2048.0,
    floor=1e-10,
)  # conf/signal/ailh.yaml
FIVE = ("BACKGROUND", "CRACK", "LEAK", "NORMAL", "UNCLASSIFIED")
LAYERS = ("conv1", "conv2", "conv3", "fc1", "cls_head", "leak_head")
WRAPPED_IN = ("model_state_dict", "state_dict", "model")
PREFIXES = ("_orig_mod.", "module.")


@dataclass
class Converted:
    """A network of AILH as settings, classes and weights of leakdet."""

    network: NetworkConfig
    labels: LabelMap
    weights: dict[str, Tensor]


def read_state(path: Path) -> dict[str, Tensor]:
    """The weights in a `.pth`, whether bare or inside a checkpoint. Nothing in it is executed.

    Raises:
        InputError: damaged, or it holds more than plain values and tensors.
    """
    weights: Any = read_torch(path, "file of weights")
    for key in WRAPPED_IN:
        if isinstance(weights, Mapping) and isinstance(weights.get(key), Mapping):
            weights = weights[key]
    if not isinstance(weights, Mapping) or not all(
        isinstance(value, Tensor) for value in weights.values()
    ):
        raise InputError(f"{path}: holds no weights of a network.")
    return dict(weights)


def convert(state: Mapping[str, Tensor], where: str) -> Converted:
    """Convert weights of AILH. Raises `InputError` where the layers are others."""
    weights = {_plain(name): tensor.float() for name, tensor in state.items()}
    wanted = {f"{layer}.{kind}" for layer in LAYERS for kind in ("weight", "bias")}
    if weights.keys() != wanted:
        raise InputError(
            f"{where}: not the network of AILH: it has {sorted(weights.keys() - wanted)} and "
            f"lacks {sorted(wanted - weights.keys())}."
        )
    for layer in ("conv1", "conv2", "conv3"):
        kernel = weights[f"{layer}.weight"]
        middle = kernel.shape[-1] // 2
        weights[f"{layer}.weight"] = kernel[..., middle : middle + 1].contiguous()
    mels = AILH_SIGNAL.n_mels
    weights |= {"input.band_mean": torch.zeros(mels), "input.band_deviation": torch.ones(mels)}
    network = NetworkConfig(name="dual_head", input_norm="none", standardise=False, time_pool=1)
    return Converted(network, _labels(len(weights["cls_head.bias"]), where), weights)


def _plain(name: str) -> str:
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _labels(classes: int, where: str) -> LabelMap:
    match classes:
        case 2:
            return LabelMap("binary", BINARY_NAMES, (1,))
        case 5:
            return LabelMap("multiclass", FIVE, (FIVE.index("LEAK"),))
    raise InputError(f"{where}: has {classes} classes; models of AILH have 2 or 5.")
