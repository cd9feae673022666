"""Sounds without a leak that train beside the recordings, at a low weight.

A network that never met rain, taps or machines calls them leaks. These sounds are no recordings:
nothing counts or scores them, and the classes of the recordings stay as balanced as they are.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from leakdet.acoustics.augment import augmented
from leakdet.acoustics.listing import LeftUnlisted, audio_files
from leakdet.config import AugmentConfig, TrainConfig
from leakdet.core.errors import SettingsError, first_few
from leakdet.detection.labels import same_label, sounds_like_leak
from leakdet.detection.losses import loss_parts
from leakdet.detection.networks import Output
from leakdet.storage.opening import open_split, split_names

if TYPE_CHECKING:
    from leakdet.training.datamodule import LeakDataModule


SAMPLES_PER_NEGATIVE = 4  # in a batch; more negatives would lower the noise, and cost time


def check_negatives(data: "LeakDataModule") -> None:
    """Check that the negatives belong to one class without a leak, and are not in the store."""
    folder, labels = data.config.data.negatives, data.labels
    if folder is None:
        return
    rest = [name for index, name in enumerate(labels.names) if index not in labels.leaks]
    if len(rest) > 1:
        raise SettingsError(
            f"data.negatives={folder}: with labels.mode=multiclass it is unclear which of "
            f"{', '.join(rest)} they are. List them in the manifest, each with its label and a "
            "low weight, or use labels=binary."
        )
    root = Path(folder)
    parents = {parent for path in audio_files(root, LeftUnlisted()) for parent in path.parents}
    called = sorted({parent.name for parent in parents if root in parent.parents})
    leaks = [
        name
        for name in called
        if sounds_like_leak(name) or any(same_label(name, leak) for leak in labels.leak_labels)
    ]
    if leaks:
        raise SettingsError(
            f"data.negatives={folder}: its folder {leaks[0]} is called like a leak, but all sounds "
            "in it would train as sounds without one. Move it elsewhere or give it another name."
        )
    if twice := _in_store(data):
        raise SettingsError(
            f"data.negatives={folder}: {len(twice)} of its sounds are recordings of {data.store} "
            f"({first_few(twice)}). What is judged must not train, and a leak must not train as no "
            "leak: take them out of the folder."
        )


def _in_store(data: "LeakDataModule") -> list[str]:
    """The recordings of the store, of any split, that are among the negatives."""
    contents = set(data.negatives.contents) if data.negatives else set[str]()
    splits = [open_split(data.store, name) for name in split_names(data.store)]
    return [
        str(name)
        for split in splits
        if split.has("content_sha256")
        for name, content in zip(
            split.recording_ids, split.texts("content_sha256").tolist(), strict=True
        )
        if content in contents
    ]


def with_negatives(
    mel: Float[Tensor, "B U M T"], negatives: Tensor | None, augment: AugmentConfig
) -> Float[Tensor, "N U M T"]:
    """The batch, and behind it a random negative for every four samples, augmented as they are."""
    if negatives is None:
        return mel
    count = -(-len(mel) // SAMPLES_PER_NEGATIVE)
    drawn = torch.randint(len(negatives), (count,), device=mel.device)
    return torch.cat([mel, augmented(negatives.index_select(0, drawn), augment)])


def divided(output: Output, samples: int) -> tuple[Output, Output]:
    """The output for the first `samples`, and that for the negatives behind them."""
    first, rest = slice(samples), slice(samples, None)
    return Output(*(part[first] for part in output)), Output(*(part[rest] for part in output))


def negatives_loss(
    output: Output,
    config: TrainConfig,
    weights: Float[Tensor, " C"],
    leaks: Sequence[int],
    count: float,
) -> Tensor:
    """The loss of negatives times `data.negatives_weight`, a sum divided by `count`."""
    logit = output.leak_logit
    weight = torch.full_like(logit, config.data.negatives_weight)
    class_id = next(index for index in range(len(weights)) if index not in leaks)
    no_leak = torch.full_like(logit, class_id, dtype=torch.int64)
    return loss_parts(output, no_leak, weight, config.loss, weights, leaks, count).total
