"""The other workers of this machine, as processes: killing one leaves the others running."""

import os
import subprocess
import sys
from collections.abc import Sequence

from leakdet._messages import LOG
from leakdet.config import TrainerFlags, TuneConfig
from leakdet.errors import SettingsError

Processes = Sequence["subprocess.Popen[bytes]"]


def start_workers(config: TuneConfig, arguments: Sequence[str]) -> Processes:
    """Start workers 1, 2, ... with the arguments that the user gave.

    Raises:
        SettingsError: far more workers than this machine has cores.
    """
    cores = os.cpu_count() or 1
    if config.tune.workers > (most := max(4, 2 * cores)):
        raise SettingsError(
            f"tune.workers={config.tune.workers}: too many processes for {cores} cores; use at "
            f"most {most}. Other machines join by a shared tune.storage (docs/tuning.md)."
        )
    plain = [argument for argument in arguments if argument not in ("-m", "--multirun")]
    command = [sys.executable, "-m", "leakdet.tune", *plain]
    return [
        subprocess.Popen([*command, f"tune.worker={number}"], env=_environment(config, number))
        for number in range(1, config.tune.workers)
    ]


def _environment(config: TuneConfig, number: int) -> dict[str, str]:
    """The environment of worker `number`, which sees one GPU, dealt out in turn."""
    if TrainerFlags.of(config.trainer).accelerator not in ("gpu", "cuda"):
        return dict(os.environ)
    import torch

    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if devices == [""]:
        devices = [str(index) for index in range(torch.cuda.device_count())]
    return os.environ | {"CUDA_VISIBLE_DEVICES": devices[number % len(devices)]}


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
