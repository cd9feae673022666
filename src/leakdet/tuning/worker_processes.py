"""The other workers of this machine, as processes of their own: none takes the others with it when it is killed."""

import os
import subprocess
import sys
from collections.abc import Sequence

from leakdet.config import TrainerFlags, TuneConfig


def start_siblings(config: TuneConfig, arguments: Sequence[str]) -> list["subprocess.Popen[bytes]"]:
    """Workers 1, 2, ... under the user's `arguments`."""
    plain = [argument for argument in arguments if argument not in ("-m", "--multirun")]
    command = [sys.executable, "-m", "leakdet.tune", *plain]
    return [
        subprocess.Popen([*command, f"tune.worker={number}"], env=_environment(config, number))
        for number in range(1, config.tune.workers)
    ]


def _environment(config: TuneConfig, number: int) -> dict[str, str]:
    """GPUs are dealt out in turn."""
    environment = dict(os.environ)
    if TrainerFlags.of(config.trainer).accelerator not in ("gpu", "cuda"):
        return environment
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    devices = (
        visible.split(",")
        if visible
        else [str(index) for index in range(torch.cuda.device_count())]
    )
    return (
        {**environment, "CUDA_VISIBLE_DEVICES": devices[number % len(devices)]}
        if devices
        else environment
    )


def end_siblings(siblings: Sequence["subprocess.Popen[bytes]"]) -> None:
    """SIGTERM: each queues its trial again."""
    for sibling in siblings:
        sibling.terminate()
    for sibling in siblings:
        sibling.wait()


def wait_for_siblings(siblings: Sequence["subprocess.Popen[bytes]"]) -> None:
    for number, sibling in enumerate(siblings, 1):
        if sibling.wait() < 0:
            print(
                f"note     worker {number} was killed (signal {-sibling.returncode}); its trial was queued again"
            )
