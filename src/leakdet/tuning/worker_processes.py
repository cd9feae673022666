"""The other workers of this machine, as processes: killing one leaves the others running."""

import os
import subprocess
import sys
from collections.abc import Sequence

from leakdet._messages import LOG
from leakdet._processes import PARENT
from leakdet.config import TrainerFlags, TuneConfig

Processes = Sequence["subprocess.Popen[bytes]"]


def start_workers(config: TuneConfig, arguments: Sequence[str]) -> Processes:
    """Start workers 1, 2, ... with the arguments that the user gave."""
    plain = [argument for argument in arguments if argument not in ("-m", "--multirun")]
    command = [sys.executable, "-m", "leakdet.tune", *plain]
    return [
        subprocess.Popen([*command, f"tune.worker={number}"], env=_environment(config, number))
        for number in range(1, config.tune.workers)
    ]


def _environment(config: TuneConfig, number: int) -> dict[str, str]:
    """The environment of worker `number`: its parent, and one GPU, dealt out in turn."""
    environment = os.environ | {PARENT: str(os.getpid())}
    if TrainerFlags.of(config.trainer).accelerator not in ("gpu", "cuda", "auto"):
        return environment
    import torch

    count = torch.cuda.device_count()
    if not count:  # auto takes the CPU then
        return environment
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[:count]
    if devices == [""]:
        devices = [str(index) for index in range(count)]
    return environment | {"CUDA_VISIBLE_DEVICES": devices[number % len(devices)]}


def end_workers(workers: Processes) -> None:
    """Send SIGTERM, upon which each queues its trial again, and wait."""
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.wait()


def wait_for_workers(workers: Processes) -> None:
    for number, worker in enumerate(workers, 1):
        if worker.wait() < 0:
            LOG.info(
                f"note     worker {number} was killed (signal {-worker.returncode}); "
                "its trial was queued again"
            )
