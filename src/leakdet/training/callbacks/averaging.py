"""Weights averaged over steps or epochs, by Lightning's own callbacks: validated and kept; training uses its own."""

from lightning.pytorch.callbacks import Callback, EMAWeightAveraging, WeightAveraging

from leakdet.config import TrainConfig


class PlainAverage(WeightAveraging):
    """The plain mean of the weights at the ends of the epochs from `start_epoch` on (SWA); before that, the latest weights."""

    def __init__(self, start_epoch: int) -> None:
        super().__init__(use_buffers=False)
        self.start_epoch = start_epoch

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        return epoch_idx is not None and epoch_idx >= self.start_epoch


def averaging(config: TrainConfig) -> list[Callback]:
    match config.averaging.name:
        case "none":
            return []
        case "ema":
            return [EMAWeightAveraging(decay=config.averaging.ema_decay)]
        case "swa":
            epochs = int(config.trainer.get("max_epochs") or 1000)
            return [PlainAverage(int(config.averaging.swa_start * epochs))]
    raise ValueError(config.averaging.name)
