"""`leakdet train`: trains a detector on a store, by default the demo, and writes its model file."""

import os
import shlex
import sys

from leakdet._exit_codes import DONE
from leakdet._messages import LOG
from leakdet._processes import is_child
from leakdet.cli.hydra_door import Run, open_door
from leakdet.cli.past_runs import point_latest
from leakdet.config import TrainConfig


def train(config: TrainConfig, run: Run) -> int:
    if not is_child():
        LOG.info(f"run      {os.path.relpath(run.folder)}")
        if not run.multirun:
            point_latest(run.folder)
    from leakdet.training.callbacks.interruption import Interrupted
    from leakdet.training_run import train_in

    try:
        train_in(run.folder, config)
    except Interrupted as stop:
        print(
            f"{stop}\nto continue: leakdet train resume={shlex.quote(os.path.relpath(run.folder))}",
            file=sys.stderr,
        )
        return stop.exit_code
    return DONE


def main() -> None:
    open_door("train", train)


if __name__ == "__main__":
    main()
