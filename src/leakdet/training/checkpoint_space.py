"""The space that a training takes on its disk: its checkpoints and its results."""

from pathlib import Path

import torch

from leakdet.config import TrainConfig
from leakdet.detection.networks import make_network
from leakdet.storage.disk_space import require_space
from leakdet.training.callbacks.built_in import checkpoints
from leakdet.training.datamodule import LeakDataModule

RESULTS_BYTES = 5_000_000  # report, figures, rows and logs of a usual run
COPIES = 3  # in a checkpoint: the weights, and two moments of the optimiser


def space_line(config: TrainConfig, data: LeakDataModule, folder: Path) -> str:
    """Check before work that the run folder's disk has room; a line for the introduction.

    Raises:
        InputError: it has not.
    """
    with torch.device("meta"):
        network = make_network(config.network, data.sample_shape, len(data.labels.names))
    weights = sum(tensor.nbytes for tensor in network.state_dict().values())
    of_checkpoint = weights * (COPIES + (config.averaging.name != "none"))
    count = len(checkpoints(folder, config.select)) + 1  # one more while it is replaced
    need = count * of_checkpoint + weights + RESULTS_BYTES
    return f"folder   {folder}: {require_space(folder, need, str(folder))}"
