"""`leakdet train`: trains a detector on a store, by default the demo, and writes its model file."""

import os
from typing import Any

from leakdet.cli.past_runs import NOTED, command_to_continue, keep_note, point_latest
from leakdet.cli.run import Run, open_door
from leakdet.config import MeasuredTrainConfig
from leakdet.core.messages import log_detail, print_status
from leakdet.core.process import DONE, is_child


def train(config: MeasuredTrainConfig, run: Run) -> int:
    if not is_child():
        log_detail(f"run      {os.path.relpath(run.folder)}")
    from lightning.pytorch.callbacks import LambdaCallback

    from leakdet.reporting.conclusion import log_summary
    from leakdet.runs.training import MODEL, next_command, train_in
    from leakdet.training.callbacks.stopping import Interrupted

    by_test = run.experiment == "smoke" or (run.multirun and not config.crossval.given)
    settings = config.plain() if by_test else config
    noted = (run.folder / NOTED).read_bytes()

    def keep(*_: Any) -> None:
        if is_child():
            return
        keep_note(run.folder, noted)
        if not run.multirun:
            point_latest(run.folder)

    try:
        # the latest run is one that keeps something: a refused one takes no other's place
        metrics = train_in(run.folder, settings, [LambdaCallback(on_save_checkpoint=keep)])
    except Interrupted as stop:
        print_status(str(stop))
        if stop.saved:
            command = command_to_continue(run.folder, run.arguments)
            print_status(f"to continue: {command}")
        return stop.exit_code
    if metrics is not None:  # the other processes have none
        log_summary(metrics, run.folder, next_command(metrics, run.folder / MODEL))
    return DONE


def main() -> None:
    open_door("train", train)


if __name__ == "__main__":
    main()
