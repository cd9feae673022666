"""Samples per second of the networks by themselves: kernels, memory formats, dropout, bf16."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import torch
from torch import nn

from benchmarks import Row, Section, in_turn, run, time_s
from leakdet.config import NetworkConfig
from leakdet.detection.networks import Network, make_network
from leakdet.training.memory import keep_freed_memory

FITTING, THREE = "fitting [samples/s]", "3x3 [samples/s]"
LAYOUTS = {
    "channels first, as in AILH": torch.contiguous_format,
    "channels last, as shipped": torch.channels_last,
}
KERNELS_NOTE = """`dual_head` on segments of one frame, batch 512; in turn, median of 10. The last two
rows compare the network as it is shipped with that of AILH."""
OPTIONS_TITLE = "Channels-last, dropout, bf16 and deterministic algorithms on this processor"
OPTIONS_NOTE = """Samples per second of forward and backward passes, in turn, median of 8; above 1 is
faster. The networks keep convolution weights channels-last and draw dropout masks four elements at
a time."""
TRIALS = (  # title, network, shape of a sample, batch size
    ("dual_head, segments, batch 512", NetworkConfig("dual_head", time_pool=1), (1, 64, 1), 512),
    ("dual_head, windows, batch 64", NetworkConfig("dual_head"), (30, 64, 1), 64),
    ("paper, windows, batch 512", NetworkConfig(), (30, 64, 1), 512),
)


def median_rates(
    works: Mapping[str, Callable[[], float]], rounds: int, warm: int = 2
) -> dict[str, float]:
    return {name: float(np.median(of)) for name, of in in_turn(works, rounds, warm).items()}


def kernels() -> Iterator[Row]:
    """Kernels that fit one frame against the 3x3 ones of AILH, in both memory formats."""
    keep_freed_memory()
    mel = torch.randn(512, 1, 64, 1)
    rows: list[Row] = []
    for layout, memory_format in LAYOUTS.items():
        networks = {FITTING: one_frame_network(), THREE: widened(one_frame_network())}
        for network in networks.values():
            network.to(memory_format=memory_format)  # type: ignore[call-overload]
        for what, rate in (("training step", training_rate), ("inference", inference_rate)):
            works = {name: partial(rate, network, mel) for name, network in networks.items()}
            rows.append({"what": what, "memory format": layout} | median_rates(works, 10))
    for first, last in zip(rows[:2], rows[2:], strict=True):
        formats = {"what": first["what"], "memory format": "last (fitting) against first (3x3)"}
        rows.append(formats | {FITTING: last[FITTING], THREE: first[THREE]})
    for row in rows:
        yield row | {"ratio": row[FITTING] / row[THREE]}


def one_frame_network() -> Network:
    return make_network(NetworkConfig("dual_head", time_pool=1), (1, 64, 1), 2)


def widened(network: Network) -> Network:
    """3x3 kernels on one column, as in AILH."""
    for name in ("conv1", "conv2", "conv3"):
        old = getattr(network, name)
        setattr(network, name, nn.Conv2d(old.in_channels, old.out_channels, 3, padding=1))
    return network


def training_rate(network: nn.Module, mel: torch.Tensor) -> float:
    """Samples per second of a forward and a backward pass."""
    network.train()

    def step() -> None:
        output = network(mel)
        (output.class_logits.sum() + output.leak_logit.sum()).backward()

    return len(mel) / time_s(step)


@torch.inference_mode()
def inference_rate(network: nn.Module, mel: torch.Tensor) -> float:
    network.eval()
    return len(mel) / time_s(partial(network, mel))


def options() -> Iterator[Row]:
    """Speed of bf16, channels-last, our dropout and deterministic algorithms on this machine."""
    keep_freed_memory()
    for title, network, shape, size in TRIALS:
        mel = torch.randn(size, *shape)
        plain, first, torch_dropout = (make_network(network, shape, 2) for _ in range(3))
        first.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        torch_dropout.dropout = nn.Dropout(network.dropout)
        rates = median_rates(
            {
                "float32": partial(training_rate, plain, mel),
                "channels first": partial(training_rate, first, mel),
                "torch's dropout": partial(training_rate, torch_dropout, mel),
                "bf16": partial(in_bf16, plain, mel),
                "deterministic": partial(deterministically, plain, mel),
            },
            8,
        )
        float32 = rates.pop("float32")
        ratios = {f"{name}, times": rate / float32 for name, rate in rates.items()}
        yield {"what": title, "float32 [samples/s]": float32, **ratios}


def in_bf16(network: nn.Module, mel: torch.Tensor) -> float:
    with torch.autocast("cpu", torch.bfloat16):
        return training_rate(network, mel)


def deterministically(network: nn.Module, mel: torch.Tensor) -> float:
    torch.use_deterministic_algorithms(True)
    try:
        return training_rate(network, mel)
    finally:
        torch.use_deterministic_algorithms(False)


if __name__ == "__main__":
    run(
        __doc__,
        Section("train_kernels", "Kernels that fit one frame", kernels(), KERNELS_NOTE),
        Section("train_options", OPTIONS_TITLE, options(), OPTIONS_NOTE),
    )
