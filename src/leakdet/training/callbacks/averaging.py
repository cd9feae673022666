"""Averages weights over steps or epochs: validation and checkpoints use them, training does not."""

from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback, EMAWeightAveraging, WeightAveraging

from leakdet.config import TrainConfig, TrainerFlags


class PlainAverage(WeightAveraging):
    """Mean of the weights at the epochs' ends from `start_epoch` on (SWA); before, the latest ones.

    What a check scores is what its checkpoint holds. Lightning's callback would not do: until the
    mean begins it validates and stores the network as it was before training, and it updates the
    mean between a check and its checkpoint.
    """

    def __init__(self, start_epoch: int) -> None:
        super().__init__(use_buffers=False)
        self.start_epoch = start_epoch

    @property
    def begun(self) -> bool:
        return self._average_model is not None and int(self._average_model.n_averaged) > 0

    def on_train_batch_end(
        self,
        trainer: "pl.Trainer",
        pl_module: "pl.LightningModule",
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Update the mean after the epoch's last step, before its validation check."""
        last = batch_idx + 1 >= trainer.num_training_batches
        # A mean that has begun continues, even if a resumed run has more epochs and a later start.
        if last and (trainer.current_epoch >= self.start_epoch or self.begun):
            assert self._average_model is not None
            self._average_model.update_parameters(pl_module)

    def on_train_epoch_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        """Do nothing: the check is over and its checkpoint not written yet."""

    def on_validation_epoch_start(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule"
    ) -> None:
        if self.begun:
            super().on_validation_epoch_start(trainer, pl_module)

    def on_validation_epoch_end(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule"
    ) -> None:
        if self.begun:
            super().on_validation_epoch_end(trainer, pl_module)

    def on_train_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.begun:
            super().on_train_end(trainer, pl_module)

    def on_save_checkpoint(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", checkpoint: dict[str, Any]
    ) -> None:
        latest = checkpoint["state_dict"]
        super().on_save_checkpoint(trainer, pl_module, checkpoint)
        if not self.begun:
            checkpoint["state_dict"] = latest


def averaging(config: TrainConfig) -> list[Callback]:
    """The callback that `averaging.name` asks for, if any."""
    match config.averaging.name:
        case "none":
            return []
        case "ema":
            return [EMAWeightAveraging(decay=config.averaging.ema_decay)]
        case "swa":
            epochs = TrainerFlags.of(config.trainer).max_epochs
            return [PlainAverage(int(config.averaging.swa_start * epochs))]
    raise ValueError(config.averaging.name)
