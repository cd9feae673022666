"""Folders of sounds, such as rain, taps or machines: mixed into samples, or trained beside them.

A network that never met them calls them leaks. Negatives train beside the recordings at a low
weight: nothing counts or scores them, and the classes of the recordings stay as balanced as they
are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float16
from torch import Tensor

from leakdet.acoustics.audio import recordings_in
from leakdet.acoustics.augment import augmented
from leakdet.acoustics.listing import LeftUnlisted, audio_files
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.synth.negatives import synthetic_negatives
from leakdet.acoustics.windows import MelStream
from leakdet.config import AugmentConfig, TrainConfig
from leakdet.config.train import SYNTHETIC
from leakdet.core.errors import InputError, SettingsError, first_few
from leakdet.core.messages import LOG, log_detail
from leakdet.detection.detector import as_samples
from leakdet.detection.labels import LabelMap, same_label, sounds_like_leak
from leakdet.detection.losses import loss_parts
from leakdet.detection.networks import Output
from leakdet.storage.opening import open_split, split_names
from leakdet.storage.store import StoreSplit

MOST = 2000  # windows, taken evenly from all files


@dataclass(frozen=True)
class FolderSounds:
    """Samples of the sounds, and the content hash of each recording that could be read."""

    mel: Float16[Tensor, "K U M T"]
    contents: list[str]


def read_sound_folder(setting: str, folder: Path, train: StoreSplit, unit: str) -> FolderSounds:
    """Read every sound under `folder`, which `setting` names, in the signal and unit of train.

    Silent windows are left out.
    """
    if train.signal is None:
        raise InputError(
            f"{train.files[0].parent}: does not say how its mel was computed, so {folder} "
            f"cannot be used; set {setting}=null."
        )
    unlisted = LeftUnlisted()
    paths = sorted(audio_files(folder, unlisted))
    for sentence in unlisted.sentences():
        tell = LOG.info if unlisted.lost else log_detail
        tell(f"note     {setting}: {sentence}")
    if not paths:
        raise InputError(f"{setting}: there are no audio files under {folder}.")
    log_mel, blocks, contents = LogMel(train.signal), list[Tensor](), list[str]()
    for path in paths:
        try:
            for source, channel in recordings_in(path, train.signal):
                stream = MelStream(source, log_mel, channel=channel)
                blocks += [block.mel[torch.from_numpy(block.live)] for block in stream]
                contents.append(stream.facts.content_sha256)
        except InputError as error:
            LOG.info(f"note     {setting}: left out: {path}: {error}")
    windows = sum(map(len, blocks))
    if not windows:
        raise InputError(
            f"{setting}: none of {len(paths)} files under {folder} holds sound that can be read."
        )
    chosen = np.linspace(0, windows - 1, min(MOST, windows)).round().astype(np.int64)
    mel = torch.cat(blocks)[torch.from_numpy(chosen)]
    return FolderSounds(as_samples(mel, unit), contents)


def why_not_synthetic(config: TrainConfig, train: StoreSplit) -> str:
    """The reason why the made-up negatives that are asked for cannot train; "" if there is none."""
    if config.data.negatives != SYNTHETIC:
        return ""
    if config.data.shuffle_labels:
        return "a null test trains on its recordings alone"
    if config.labels.mode == "multiclass":
        return "with several classes it is unclear which of them they are"
    return "" if train.signal else "the store does not say how its mel was computed"


def folder_of_negatives(config: TrainConfig, train: StoreSplit) -> Path:
    """The folder that `data.negatives` names, or that of the made-up sounds, written once."""
    data = config.data
    if data.negatives == SYNTHETIC and train.signal is not None:
        cache = Path(data.cache) if data.cache else None
        return synthetic_negatives(train.signal, config.seed, cache)
    return Path(str(data.negatives))


SAMPLES_PER_NEGATIVE = 4  # in a batch; more negatives would lower the noise, and cost time


def check_negatives(
    folder: str, sounds: FolderSounds, labels: LabelMap, store: Path
) -> FolderSounds:
    """Check that negatives belong to one class without a leak, and are not in the store."""
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
    if twice := _in_store(store, set(sounds.contents)):
        raise SettingsError(
            f"data.negatives={folder}: {len(twice)} of its sounds are recordings of {store} "
            f"({first_few(twice)}). What is judged must not train, and a leak must not train as no "
            "leak: take them out of the folder."
        )
    return sounds


def _in_store(store: Path, contents: set[str]) -> list[str]:
    """The recordings of the store, of any split, that have one of these content hashes."""
    splits = [open_split(store, name) for name in split_names(store)]
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
