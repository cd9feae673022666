"""Settings of the callbacks of a training."""

from dataclasses import dataclass

from leakdet.config.range_checks import doc, is_own, require


@dataclass
class CallbacksConfig:
    """One switch per built-in callback, and the user's own callbacks.

    Numbers that a callback works with stay where they are: `patience`, `loss_patience`,
    `averaging`, `trainer.enable_progress_bar`. Checkpoints and history.csv are always written.
    """

    early_stopping: bool = doc(True, "Stop after patience checks without a better one.")
    loss_stop: bool = doc(True, "Stop after loss_patience checks with a risen loss.")
    learning_rate_monitor: bool = doc(True, "Log the learning rate.")
    loader_wait: bool = doc(True, "Log the time spent waiting for data; warn if it is long.")
    step_times: bool = doc(True, "Log samples/s; warn of slow callbacks and slow checks.")
    first_batch: bool = doc(True, "Warn if the input is badly scaled.")
    gradient_monitor: bool = doc(True, "Log gradient norms; warn if they explode or vanish.")
    rate_watch: bool = doc(True, "Warn if nothing is learnt: too low a rate, a flat loss.")
    collapse: bool = doc(True, "Warn of constant, inverted or single-class predictions.")
    overfit: bool = doc(True, "Warn if the training loss falls while fewer leaks are found.")
    system_use: bool = doc(
        True, "Log use of CPU, memory and GPU; warn of an idle GPU, full memory."
    )
    extra: list[str] = doc(
        [], "package.module:Class of each of your own, made without arguments after the others."
    )

    def __post_init__(self) -> None:
        for name in self.extra:
            require(is_own(name), "callbacks.extra", name, "package.module:Class")
