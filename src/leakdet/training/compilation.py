"""Compiles a network for training steps, or trains it as it is where that fails."""

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor, nn

from leakdet.config import TrainConfig, TrainerFlags
from leakdet.core.messages import LOG
from leakdet.core.process import is_child
from leakdet.detection.networks import Output
from leakdet.loading.order import epoch_bounds, share_sizes
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.sounds import SAMPLES_PER_NEGATIVE

# Graphs that torch keeps for one function: a sweep meets more shapes and networks than its 8.
GRAPHS = 64
COMPILERS = ("g++", "clang++", "c++", "gcc", "clang", "cc")
NO_COMPILER = (
    "InvalidCxxCompiler",
    "find C compiler",
)  # torch's error and triton's: none of theirs
ABOUT = {"max-autotune": "several minutes"}  # the first step takes, in this mode

Run = Callable[[Tensor], Output]
Precision = Callable[[], AbstractContextManager[Any]]


def compiled_for(
    network: nn.Module, config: TrainConfig, data: LeakDataModule, trainer: "pl.Trainer"
) -> Run:
    """`compiled`, for the batches and the precision of a training."""
    plugin: Any = trainer.precision_plugin
    sizes = step_sizes(data, trainer.global_rank, trainer.world_size)
    shapes = [(size, *data.sample_shape) for size in sizes]
    return compiled(network, config, shapes, plugin.forward_context)


def compiled(
    network: nn.Module,
    config: TrainConfig,
    shapes: Sequence[tuple[int, ...]],
    precision: Precision = nullcontext,
) -> Run:
    """What a training step calls: the compiled network, or the network where compiling fails.

    It is compiled for inputs of these shapes, and only for steps: validation runs the network as
    the model file will. Nothing is kept in the network, so checkpoints are the same.
    """
    if not is_child():
        _announce(config.compile_mode, str(network), tuple(shapes))
    from torch._dynamo import config as dynamo  # a slow import

    dynamo.recompile_limit = max(GRAPHS, dynamo.recompile_limit)
    run: Run = torch.compile(
        network.forward, mode=torch_mode(config), fullgraph=config.compile_fullgraph
    )
    try:
        for shape in shapes:
            rehearse(run, network, torch.zeros(shape), precision)
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:  # whatever it is: what fails in the plain network fails again
        if not is_child():
            reason = _reason(error)
            _warn(reason, _remedy(reason))
        return network.__call__
    return run


def torch_mode(config: TrainConfig) -> str:
    """torch's name of the mode; without CUDA graphs where gradients are added up over batches.

    A graph overwrites the gradients of the batch before (pytorch/pytorch, issue 169545).
    """
    adds_up = TrainerFlags.of(config.trainer).accumulate_grad_batches != 1
    graphs_in_autotune = config.compile_mode == "max-autotune" and adds_up
    return "max-autotune-no-cudagraphs" if graphs_in_autotune else config.compile_mode


def step_sizes(data: LeakDataModule, rank: int, world: int) -> list[int]:
    """The different numbers of samples that steps of an epoch give to the network."""
    samples, settings = data.train_samples, data.config.data
    bounds = epoch_bounds(samples.class_counts(), settings, world)
    sizes = np.unique(share_sizes(bounds, rank, world))
    if data.negatives is not None:
        sizes = sizes + -(-sizes // SAMPLES_PER_NEGATIVE)
    return [int(size) for size in sizes]


def rehearse(
    run: Run,
    network: nn.Module,
    mel: Tensor,
    precision: Precision = nullcontext,
) -> None:
    """Run forwards and backwards once, which compiles both; changes nothing of the network."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    device = parameters[0].device
    before = [(buffer, buffer.clone()) for buffer in network.buffers()]
    training = network.training
    network.train()
    with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.enable_grad():
        with precision():
            output = run(mel.to(device))
        # not backward(): it would leave gradients, and call what hangs on them in a distributed run
        loss = output.class_logits.float().sum() + output.leak_logit.float().sum()
        torch.autograd.grad(loss, parameters, allow_unused=True)
    network.train(training)
    for buffer, value in before:
        buffer.copy_(value)


def _reason(error: Exception) -> str:
    """The first line of what went wrong; torch wraps it in errors of its own."""
    inner = getattr(error, "inner_exception", None) or error.__cause__ or error
    return f"{type(inner).__name__}: {next(iter(str(inner).splitlines()), '')}"[:200].rstrip(". :")


def _remedy(reason: str) -> str:
    names = (*COMPILERS, *filter(None, map(os.environ.get, ("CC", "CXX"))))
    has_compiler = any(shutil.which(name.split()[0]) for name in names)
    if has_compiler and not any(text in reason for text in NO_COMPILER):
        return "compile=false says the same without trying"
    return "This machine has no C++ compiler, which that takes: install g++, or give compile=false"


@cache  # the folds and trials that follow with the same network and shapes do not wait
def _announce(mode: str, network: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    LOG.info(
        f"compile  compiling: the first step takes {ABOUT.get(mode, 'about a minute')}; later runs "
        "on this machine start sooner"
    )


@cache  # once, however many trainings a process runs
def _warn(reason: str, remedy: str) -> None:
    LOG.warning(
        "compile=true: the network cannot be compiled here, and is trained as it is, with the same "
        f"results in more time ({reason}). {remedy}."
    )
