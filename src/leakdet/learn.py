"""`leakdet learn MODEL RECORDINGS`: makes a better model from confirmed digs."""

from leakdet.cli.run import Run, open_door
from leakdet.config import LearnConfig
from leakdet.core.messages import print_status
from leakdet.core.process import DONE, PARTLY


def learn(config: LearnConfig, run: Run) -> int:
    from leakdet.runs.learning import learn_in, publish_only
    from leakdet.training.callbacks.stopping import Interrupted

    if config.learn.new is None:
        publish_only(config)
        return DONE
    try:
        return PARTLY if learn_in(run.folder, config).left_out else DONE
    except Interrupted as stop:
        print_status("stopped; nothing was published, and the old model is as it was")
        return stop.exit_code


def main() -> None:
    open_door("learn", learn)


if __name__ == "__main__":
    main()
