"""The lines that a training prints before it starts, and the facts that its model file keeps."""

import math
import platform
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from leakdet.config import TrainConfig, TrainerFlags
from leakdet.config.train import SYNTHETIC
from leakdet.core.errors import counted, first_few
from leakdet.core.files import from_here
from leakdet.detection.losses import class_weights, effective_balance
from leakdet.detection.met import MetRecordings
from leakdet.evaluation.metrics import resolves_fpr
from leakdet.evaluation.recording_media import texts_or_none
from leakdet.loading.order import epoch_bounds
from leakdet.storage.overlap import shared_sentences
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import no_sound_sentence, view_of_all
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.settings import FEW_RECORDINGS, needs_val
from leakdet.training.sounds import why_not_synthetic
from leakdet.training.validation import Selection


def training_facts(data: LeakDataModule) -> dict[str, Any]:
    """The facts about a training that the model file keeps beside settings and epoch."""
    train, val = data.splits.train, data.splits.val
    versions = {name: version(name) for name in ("leakdet", "torch", "lightning")}
    only_val = int((~np.isin(val.recording_ids, train.recording_ids)).sum())
    return {
        "store": str(data.store.absolute()),
        "store_signal_hash": train.signal.hash if train.signal else None,
        "recordings": {"train": train.recordings, "val": only_val},
        "versions": {"python": platform.python_version(), **versions},
    }


def met_by_training(data: LeakDataModule, train: StoreSplit) -> MetRecordings | None:
    """Recordings and groups of train, with the negatives, and val, and of the start of training.

    None where the store has no content hashes, or where it is unknown what the start has met.
    """
    splits = {"train": train, "val": data.splits.val}
    if not all(split.has("content_sha256") for split in splits.values()):
        return None
    contents = {role: split.texts("content_sha256").tolist() for role, split in splits.items()}
    contents["train"] += data.negatives.contents if data.negatives else []
    met = MetRecordings.of(
        contents,
        {role: split.groups for role, split in splits.items()},
    )
    return met if data.start is None else data.start.joined(met)


SAME = 0.005  # shares that differ by less are printed alike
UNEVEN = 0.1  # so far from half a share of leaks is no balance


def summary(data: LeakDataModule, folds: int = 0) -> str:
    """What is trained on, when it ends, what is left out, and the folds that measure it then."""
    train, val, config = data.splits.train, data.splits.val, data.config
    ends = stops_when(config, data.given)
    if config.stop.name == "fixed":
        ends = f"after {counted(TrainerFlags.of(config.trainer).max_epochs, 'epoch')}"
    validates = not folds or needs_val(config, val.recordings)
    every = "all " if folds else ""
    recordings = f"{every}{counted(train.recordings, 'recording')} of {from_here(data.store)}"
    validation = f", {val.recordings} for validation" if validates else ""
    then = ""
    if folds:
        then = (
            f". {folds} folds then measure it (crossval.folds=0: none); only new recordings can "
            "evaluate it"
        )
    line = f"trains   {recordings}{validation}; stops {ends}{then}"
    return "\n".join([line, *(f"note     {note}" for note in _left_out(data))])


def _left_out(data: LeakDataModule) -> Iterator[str]:
    for split in data.splits.all:
        if line := no_sound_sentence(split):
            yield line
    if data.config.data.shuffle_labels:
        yield "LABELS ARE SHUFFLED: this is a null test; do not use its model"


def introduction(data: LeakDataModule) -> str:
    """Data, class balance, network and end of a run: the first lines to read when it goes wrong."""
    config = data.config
    train, val = data.splits.train, data.splits.val
    view = view_of_all(data.splits.all)
    shape = " x ".join(map(str, data.sample_shape))
    lines = [
        f"store    {data.store}",
        f"train    {counted(train.recordings, 'recording')}, {counted(train.windows, 'window')}",
        f"val      {counted(val.recordings, 'recording')}, {counted(val.windows, 'window')}",
        f"labels   {view.sentence()}",
        f"batches  {_batches(config, data)} (data.sampling={config.data.sampling})",
        f"steps    {steps_line(config, data)} (data.batch_size={config.data.batch_size})",
        *(f"loss     {balance} (loss.name={config.loss.name})" for balance in _loss(config, data)),
        *_negatives(config, data),
        f"data     {data.residency.reason}",
        f"network  {config.network.name} on {config.data.unit}s of {shape} "
        "(segments, mels, frames)",
        *([f"start    {data.start.sentence(data.splits)}"] if data.start else []),
        f"stops    {stops_when(config, data.given)}",
        *(f"selects  {line}" for line in _selects(config, data)),
        *(f"groups   {sentence}" for sentence in _shared_groups(data)),
        *(f"note     {note}" for note in _notes(config, data)),
    ]
    return "\n".join(lines)


def stops_when(config: TrainConfig, given: TrainConfig) -> str:
    """Everything that ends a run; the first of them counts."""
    switches, flags = config.callbacks, TrainerFlags.of(config.trainer)
    if config.stop.name == "fixed":
        return f"after {_fixed_passes(config, given)}, whatever val says (stop.name=fixed)"
    ends = [f"at epoch {flags.max_epochs}"] if flags.max_epochs > 0 else []
    if flags.max_steps > 0:
        ends.append(f"at optimiser step {flags.max_steps}")
    if switches.early_stopping:
        by = Selection.of(config).words
        ends.append(f"after {flags.span(config.patience)} without a better {by}")
    if switches.loss_stop and config.loss_patience:
        ends.append(f"after {flags.span(config.loss_patience)} of rising loss")
    *first, last = ends or ["when it is interrupted"]
    comma = "," if len(first) > 1 else ""
    return f"{', '.join(first)}{comma} or {last}" if first else last


def _fixed_passes(config: TrainConfig, given: TrainConfig) -> str:
    """Epochs and batches of a fixed number of passes, and the settings that it lowers for them."""
    stop, size = config.stop, config.data.batch_size
    epochs, limit = (TrainerFlags.of(settings.trainer).max_epochs for settings in (config, given))
    passes = counted(epochs, "epoch")
    if epochs < limit:
        passes += f" (stop.passes={stop.passes}, fewer than trainer.max_epochs={limit})"
    if size:
        passes += f" in batches of at most {size} {config.data.unit}s"
    if size < given.data.batch_size:
        passes += f" (for stop.batches={stop.batches}, fewer than data.batch_size="
        passes += f"{given.data.batch_size})"
    return passes


def _negatives(config: TrainConfig, data: LeakDataModule) -> Iterator[str]:
    if data.negatives is not None:
        files, samples = len(data.negatives.contents), len(data.negatives.mel)
        yield (
            f"beside   {counted(files, 'sound')} without a leak, "
            f"{counted(samples, config.data.unit)}, with weight "
            f"{config.data.negatives_weight:g} (data.negatives)"
        )
    if reason := why_not_synthetic(data.given, data.splits.train):
        yield f"beside   no made-up sounds: {reason} (data.negatives={SYNTHETIC})"


def _fixed_notes(config: TrainConfig, data: LeakDataModule) -> list[str]:
    """Notes on why val chooses nothing, and on a threshold that does not suit the training."""
    notes, decision, val = [], config.decision, data.splits.val.recordings
    if val < FEW_RECORDINGS:
        also = " or a threshold" if decision.policy == "fixed" else ""
        notes.append(
            f"{val} validation recordings are too few to choose a checkpoint{also} by: the last "
            "weights are the result (stop.name=val: the best on val all the same)"
        )
    leaks = loss_balance(config, data)[list(data.labels.leaks)].sum()
    if decision.policy == "fixed" and decision.threshold == 0.5 and abs(leaks - 0.5) > UNEVEN:
        notes.append(
            f"{leaks:.0%} of the loss is of leaks, and the threshold is 0.5, which suits as many "
            f"leaks as others; {_remedy_of_imbalance(data)}"
        )
    return notes


def _remedy_of_imbalance(data: LeakDataModule) -> str:
    if data.labels.tells_classes:
        return "decision.policy=max_f1 fits one on val"
    return "data.sampling=balanced makes them so"


def _selects(config: TrainConfig, data: LeakDataModule) -> Iterator[str]:
    """Criterion that chooses the best check, if not F1, and what it is measured on."""
    by, is_leak = Selection.of(config), data.val_is_leak
    if by.name == "f1":
        return
    if config.stop.name == "fixed":
        yield f"nothing: the last weights are the result, so select={by.name} has no effect"
        return
    line, negatives = f"the best {by.words} on val (select={by.name})", int((~is_leak).sum())
    if by.name == "tpr_at_fpr" and not resolves_fpr(by.limit or 0.0, negatives):
        windows = int(data.splits.val.windows_per_recording[~is_leak].sum())
        line += f": {negatives} recordings without leak resolve no FPR below {1 / negatives:.2g}, "
        line += f"so it is that of all windows, {windows} without leak"
        if not resolves_fpr(by.limit or 0.0, windows):
            line += ", which do not either: it is the TPR without a false alarm"
    yield line


def _batches(config: TrainConfig, data: LeakDataModule) -> str:
    """Share of each class in a batch."""
    if config.data.sampling != "curriculum":
        return _shares(data, data.train_mix)
    first = _shares(data, data.mix_of_epoch(0))
    later = _shares(data, data.train_mix)
    return f"{first} at first; {later} from epoch {config.data.curriculum_epochs + 1}"


def _loss(config: TrainConfig, data: LeakDataModule) -> Iterator[str]:
    """Share of each class in the loss, where it is not its share in the batches."""
    balance = loss_balance(config, data)
    if np.abs(balance - data.train_mix).max() >= SAME:
        yield _shares(data, balance)


def loss_balance(config: TrainConfig, data: LeakDataModule) -> np.ndarray:
    """Share of each class in the loss, float64 [classes]."""
    mix = torch.from_numpy(data.train_mix).float()
    weights = class_weights(config.loss, mix, data.labels.leaks)
    weighted = torch.from_numpy(data.train_mix * data.train_weights).float()
    return np.asarray(effective_balance(weighted, weights).double().numpy())


def _shares(data: LeakDataModule, shares: np.ndarray) -> str:
    """`half leak, half no leak`; of several classes their names, those of leaks first."""
    names, leaks = data.labels.names, data.labels.leaks
    if data.labels.mode == "binary":
        words = {leaks[0]: "leak", 1 - leaks[0]: "no leak"}
    else:
        rest = [index for index in range(len(names)) if index not in leaks]
        words = {index: names[index] for index in (*leaks, *rest)}
    return ", ".join(f"{_share(shares[index])} {word}" for index, word in words.items())


def _share(share: float) -> str:
    return "half" if abs(share - 0.5) < SAME else f"{share:.0%}"


def _shared_groups(data: LeakDataModule) -> list[str]:
    """A sentence on what the splits of the store share, and so what the scores cannot tell."""
    return shared_sentences(data.splits.all) if data.splits.of_whole_store else []


FEW_STEPS, ENOUGH_STEPS = 5, 10  # in an epoch


def steps_line(config: TrainConfig, data: LeakDataModule) -> str:
    """Optimiser steps of an epoch and the samples in each: the effective batch size."""
    if not config.data.batch_size:
        return "by the batch size that steps on the GPU find first"
    steps, samples = _steps(config, data)
    together = TrainerFlags.of(config.trainer).accumulate_grad_batches
    batches = f", {together} batches together" if together > 1 else ""
    at_most = "at most " * (steps > 1)
    return f"{steps} an epoch, each of {at_most}{samples} {config.data.unit}s{batches}"


def few_steps_notes(config: TrainConfig, data: LeakDataModule) -> Iterator[str]:
    """A note where an epoch is a handful of steps, and val chooses among its ends.

    None where the batch size is yet to be found.
    """
    if not config.data.batch_size:
        return
    steps, _ = _steps(config, data)
    together = TrainerFlags.of(config.trainer).accumulate_grad_batches
    size = len(data.train_samples) // (ENOUGH_STEPS * together)
    if steps < FEW_STEPS and config.stop.name == "val" and size:
        yield (
            f"an epoch is {counted(steps, 'optimiser step')}, so the weights hardly "
            f"move between two validation checks; data.batch_size={size} makes it {ENOUGH_STEPS}"
        )


def unused_gpu_notes(config: TrainConfig) -> Iterator[str]:
    """A note where this machine has a GPU that the training does not use."""
    if TrainerFlags.of(config.trainer).accelerator == "cpu" and torch.cuda.is_available():
        yield "this machine has a GPU, which this training does not use: trainer=gpu does"


def _steps(config: TrainConfig, data: LeakDataModule) -> tuple[int, int]:
    """Steps of an epoch, and the most samples in one."""
    bounds = epoch_bounds(data.train_samples.class_counts(), config.data)
    flags = TrainerFlags.of(config.trainer)
    batches, together = len(bounds) - 1, flags.accumulate_grad_batches
    limit = flags.limit_train_batches
    batches = min(batches, limit) if isinstance(limit, int) else int(batches * limit)
    largest = int(np.diff(bounds).max())
    return max(1, math.ceil(batches / together)), largest * min(together, max(1, batches))


def _short_sentence(split: StoreSplit) -> str:
    """A sentence on recordings shorter than a window; "" where there are none."""
    flags = texts_or_none(split, "flags")
    if flags is None:
        return ""
    short = np.array(["short" in text.split(",") for text in flags.tolist()], bool)
    if not short.any():
        return ""
    leaks = int(split.is_leak[short].sum())
    single = short.sum() == 1
    does = "trains" if split.name == "train" else "is judged"
    do = "train" if split.name == "train" else "are judged"
    return (
        f"{short.sum()} of {split.recordings} recordings ({split.name}; {leaks} with a leak) "
        f"{'is' if single else 'are'} shorter than a window: {'it' if single else 'they'} "
        f"{does if single else do} as one window of repeated sound, while predict leaves such "
        f"recordings undecided: {first_few(split.recording_ids[short].tolist())}"
    )


def _notes(config: TrainConfig, data: LeakDataModule) -> list[str]:
    train, val = data.splits.train, data.splits.val
    notes = view_of_all(data.splits.all).notes()
    if train.signal_unknown:
        notes.append(
            f"{train.signal_unknown}: the model will score stores like this one, but no audio"
        )
    notes += [*few_steps_notes(config, data), *unused_gpu_notes(config)]
    notes += _fixed_notes(config, data) if config.stop.name == "fixed" else []
    notes += [slow for split in (train, val) if (slow := split.mel.slow_chunks)]
    notes += [line for split in data.splits.all if (line := _short_sentence(split))]
    if not train.groups:
        notes.append(
            "the store names no sites or sensors, so whether splits share them cannot be checked"
        )
    return notes
