"""Samples per second of the networks by themselves: kernels, memory formats, dropout, bf16.

`python scripts/bench_kernels.py [kernels] [options]`; writes its sections of docs/benchmarks.md.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks import run_sections, write_section
from leakdet.config import NetworkConfig
from leakdet.detection.networks import Network, make_network
from leakdet.training.memory import keep_freed_memory

FITTING, THREE = "fitting [samples/s]", "3x3 [samples/s]"
LAYOUTS = {
    "channels first, as in AILH": torch.contiguous_format,
    "channels last, as shipped": torch.channels_last,
}


def kernels() -> None:
    """Kernels that fit one frame against the 3x3 ones of AILH, in both memory formats."""
    keep_freed_memory()
    mel = torch.randn(512, 1, 64, 1)
    rows: list[dict[str, Any]] = []
    for layout, memory_format in LAYOUTS.items():
        fitting_one, three = one_frame_network(), widened(one_frame_network())
        for network in (fitting_one, three):
            network.to(memory_format=memory_format)  # type: ignore[call-overload]
        for what, timed in (("training step", training_rate), ("inference", inference_rate)):
            pairs = [(timed(fitting_one, mel), timed(three, mel)) for _ in range(12)][2:]
            fitted, wide = (statistics.median(rates) for rates in zip(*pairs, strict=True))
            rates = {FITTING: fitted, THREE: wide, "ratio": fitted / wide}
            rows.append({"what": what, "memory format": layout, **rates})
            print(rows[-1], flush=True)
    first, last = rows[:2], rows[2:]
    for as_in_ailh, as_shipped in zip(first, last, strict=True):
        rates = {name: row[name] for row, name in ((as_shipped, FITTING), (as_in_ailh, THREE))}
        formats = "last (fitting) against first (3x3)"
        rows.append(
            {
                "what": as_shipped["what"],
                "memory format": formats,
                **rates,
                "ratio": rates[FITTING] / rates[THREE],
            }
        )
    note = """`dual_head` on segments of one frame, batch 512; in turn, median of 10. The last two
rows compare the network as it is shipped with that of AILH."""
    write_section("train_kernels", "Kernels that fit one frame", rows, note)


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
    started = time.perf_counter()
    output = network(mel)
    (output.class_logits.sum() + output.leak_logit.sum()).backward()
    return len(mel) / (time.perf_counter() - started)


@torch.inference_mode()
def inference_rate(network: nn.Module, mel: torch.Tensor) -> float:
    network.eval()
    started = time.perf_counter()
    network(mel)
    return len(mel) / (time.perf_counter() - started)


def options() -> None:
    """Speed of bf16, channels-last, our dropout and deterministic algorithms on this machine."""
    keep_freed_memory()
    rows = []
    for title, network, shape, size in (
        (
            "dual_head, segments, batch 512",
            NetworkConfig("dual_head", time_pool=1),
            (1, 64, 1),
            512,
        ),
        ("dual_head, windows, batch 64", NetworkConfig("dual_head"), (30, 64, 1), 64),
        ("paper, windows, batch 512", NetworkConfig(), (30, 64, 1), 512),
    ):
        mel = torch.randn(size, *shape)
        plain = make_network(network, shape, 2)
        first = make_network(network, shape, 2)
        first.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        torch_dropout = make_network(network, shape, 2)
        torch_dropout.dropout = nn.Dropout(network.dropout)
        variants: dict[str, Callable[[], float]] = {
            "float32": partial(training_rate, plain, mel),
            "channels first": partial(training_rate, first, mel),
            "torch's dropout": partial(training_rate, torch_dropout, mel),
            "bf16": partial(in_bf16, plain, mel),
            "deterministic": partial(deterministically, plain, mel),
        }
        rounds = [{name: timed() for name, timed in variants.items()} for _ in range(10)][2:]
        rates = {name: statistics.median(row[name] for row in rounds) for name in variants}
        ratio = {
            f"{name}, times": rate / rates["float32"]
            for name, rate in rates.items()
            if name != "float32"
        }
        rows.append({"what": title, "float32 [samples/s]": rates["float32"], **ratio})
        print(rows[-1], flush=True)
    note = """Samples per second of forward and backward passes, in turn, median of 8; above 1 is
faster. The networks keep convolution weights channels-last and draw dropout masks four elements at
a time."""
    title = "Channels-last, dropout, bf16 and deterministic algorithms on this processor"
    write_section("train_options", title, rows, note)


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
    run_sections({"kernels": kernels, "options": options})
