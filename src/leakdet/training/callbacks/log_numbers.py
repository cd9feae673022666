"""Numbers of callbacks to the run's loggers."""

import lightning.pytorch as pl


def log_numbers(trainer: "pl.Trainer", numbers: dict[str, float]) -> None:
    """Past `pl_module.log`, as Lightning's LearningRateMonitor does: its bookkeeping costs more than most of the numbers."""
    for logger in trainer.loggers:
        logger.log_metrics(numbers, trainer.global_step)
