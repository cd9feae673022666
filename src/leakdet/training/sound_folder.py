"""A folder of sounds, such as rain or taps, as log-mel samples of the store's own signal."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float16
from torch import Tensor

from leakdet.acoustics.audio import recordings_in
from leakdet.acoustics.listing import LeftUnlisted, audio_files
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.core.errors import InputError
from leakdet.core.messages import LOG
from leakdet.detection.detector import as_samples
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
        LOG.info(f"note     {setting}: {sentence}")
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
