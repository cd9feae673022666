"""What a training run says of itself before it starts."""

from collections.abc import Iterable, Sequence

import torch

from leakdet.config import TrainConfig, TrainerFlags
from leakdet.detection.losses import class_weights, effective_balance
from leakdet.training.datamodule import LeakDataModule


def introduction(config: TrainConfig, data: LeakDataModule) -> str:
    """Data, class balance, network and end of a run: the first lines to read when it goes wrong."""
    train, val = data.splits.train, data.splits.val
    surrogates = f" and {data.splits.surrogates} surrogates" if data.splits.surrogates else ""
    shape = " x ".join(map(str, data.sample_shape))
    lines = [
        f"store    {data.store}",
        f"train    {train.recordings - data.splits.surrogates} recordings{surrogates}, "
        f"{train.windows} windows",
        f"val      {val.recordings} recordings, {val.windows} windows",
        f"classes  {_class_mix(config, data)} of the samples ({config.data.sampling} sampling); "
        f"the leak class is {data.leak_label}",
        f"balance  {_loss_balance(config, data)} of the loss ({config.loss.name})",
        f"data     {data.residency.reason}",
        f"network  {config.network.name} on {config.data.unit}s of {shape} (segments, mels, frames)",
        f"stops    {stops_when(config)}",
        *(f"note     {note}" for note in _notes(config, data)),
    ]
    return "\n".join(lines)


def stops_when(config: TrainConfig) -> str:
    """When a run ends. Patience counts validation checks: they are told in epochs."""
    flags = TrainerFlags.of(config.trainer)
    interval = flags.val_check_interval

    def waiting(checks: int) -> str:
        if not isinstance(interval, float):  # a number of batches
            return f"{checks} validation checks"
        epochs = checks * flags.check_val_every_n_epoch * interval
        return f"{epochs:g} epochs" + (f" ({checks} checks)" if epochs != checks else "")

    ends = [f"at epoch {flags.max_epochs}"] if flags.max_epochs > 0 else []
    ends.append(f"after {waiting(config.patience)} without a better recording F1")
    if config.loss_patience:
        ends.append(f"after {waiting(config.loss_patience)} of rising loss")
    return ", or ".join(ends)


def _class_mix(config: TrainConfig, data: LeakDataModule) -> str:
    mix = _shares(data.labels.names, data.train_mix)
    if config.data.sampling != "curriculum":
        return mix
    first = _shares(data.labels.names, data.mix_of_epoch(0))
    return f"{first} at first, {mix} from epoch {config.data.curriculum_epochs + 1}"


def _loss_balance(config: TrainConfig, data: LeakDataModule) -> str:
    mix = torch.from_numpy(data.train_mix).float()
    weights = class_weights(config.loss, mix, data.labels.leak_index)
    drawn = torch.from_numpy(data.train_mix * data.train_weights).float()
    return _shares(data.labels.names, effective_balance(drawn, weights).tolist())


def _shares(names: Sequence[str], shares: Iterable[float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in zip(names, shares, strict=True))


def _notes(config: TrainConfig, data: LeakDataModule) -> list[str]:
    train, val = data.splits.train, data.splits.val
    notes = []
    if train.signal_unknown:
        notes.append(
            f"{train.signal_unknown}: the model will score stores like this one, but no audio"
        )
    notes += [slow for split in (train, val) if (slow := split.mel.slow_chunks)]
    if not train.groups:
        notes.append(
            "the store names no sites or sensors, so whether splits share them cannot be checked"
        )
    if config.data.shuffle_labels:
        notes.append("LABELS ARE SHUFFLED: this is a null test; do not use its model")
    return notes
