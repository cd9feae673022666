"""`leakdet learn model=… data.store=… learn.new=…`: makes a better model from confirmed digs."""

from leakdet._exit_codes import DONE, PARTLY
from leakdet._messages import tell
from leakdet.cli.hydra_door import Run, open_door
from leakdet.config import LearnConfig


def learn(config: LearnConfig, run: Run) -> int:
    from leakdet.learn_run import learn_in, publish_only
    from leakdet.training.callbacks.interruption import Interrupted

    if config.learn.new is None:
        publish_only(config)
        return DONE
    try:
        return PARTLY if learn_in(run.folder, config).left_out else DONE
    except Interrupted as stop:
        tell("stopped; nothing was published, and the old model is as it was")
        return stop.exit_code


def main() -> None:
    open_door("learn", learn)


if __name__ == "__main__":
    main()
