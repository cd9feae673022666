"""Settings of the callbacks of a training."""

import re
from dataclasses import dataclass, field

from leakdet.config.range_checks import require

NAMED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass
class CallbacksConfig:
    """One switch per built-in callback, and a person's own callbacks.

    Numbers that a callback works with stay where they are: `patience`, `loss_patience`,
    `averaging`, `trainer.enable_progress_bar`. Checkpoints and history.csv are always written.
    """

    early_stopping: bool = True  # stops after `patience` checks without a better F1
    loss_stop: bool = True  # stops after `loss_patience` checks with a risen loss
    learning_rate_monitor: bool = True  # logs the learning rate
    loader_wait: bool = True  # logs the time spent waiting for data; warns where it is long
    first_batch: bool = True  # warns where the input is badly scaled
    gradient_monitor: bool = True  # logs gradient norms; warns where they explode or vanish
    rate_watch: bool = True  # warns where the learning rate is too low to learn
    collapse: bool = True  # warns of constant, inverted or single-class predictions
    overfit: bool = True  # warns where train loss falls while fewer leaks are found
    system_use: bool = True  # logs how busy CPU, memory and GPU are; warns of an idle GPU
    # package.module:Class of each of your own, made without arguments after the built-in ones
    extra: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in self.extra:
            require(
                NAMED.fullmatch(name) is not None, "callbacks.extra", name, "package.module:Class"
            )
