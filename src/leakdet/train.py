"""`python -m leakdet.train`: from a store (by default the demo) to a model file, with an honest score."""

import sys

from leakdet._door import Run, open_door
from leakdet._exit_codes import DONE
from leakdet.config import TrainConfig


def train(config: TrainConfig, run: Run) -> int:
    from leakdet.training.callbacks.interruption import Interrupted
    from leakdet.training_run import train_in

    try:
        train_in(run.folder, config)
    except Interrupted as stop:
        print(f"{stop}\nto go on: the same command with resume={run.folder}", file=sys.stderr)
        return stop.exit_code
    return DONE


def main() -> None:
    open_door("train", train)


if __name__ == "__main__":
    main()
