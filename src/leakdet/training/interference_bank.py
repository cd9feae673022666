"""Sounds to mix into training samples: a folder of clips as log-mel of the store's own signal."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from leakdet._messages import LOG
from leakdet.acoustics.audio_listing import LeftUnlisted, audio_files
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.config import TrainConfig
from leakdet.detection.detector import as_samples
from leakdet.errors import InputError

if TYPE_CHECKING:
    from leakdet.training.datamodule import LeakDataModule

MOST = 2000  # windows, taken evenly from all clips


def interference_bank(config: TrainConfig, data: "LeakDataModule") -> Float[Tensor, "K U M T"]:
    """Log-mel samples, float16, of the clips under `augment.interference`.

    Raises:
        InputError: there is no such folder, no readable audio in it, or the store does not say how
            its mel was computed.
    """
    folder = Path(str(config.augment.interference))
    signal = data.splits.train.signal
    if signal is None:
        raise InputError(
            f"{data.store}: does not say how its mel was computed, so {folder} cannot be mixed in; "
            "set augment.interference=null."
        )
    paths = sorted(audio_files(folder, LeftUnlisted()))
    if not paths:
        raise InputError(f"augment.interference: there are no audio files under {folder}.")
    log_mel = LogMel(signal)
    blocks = [mel for path in paths for mel in _mel_of(path, log_mel)]
    if not blocks:
        raise InputError(
            f"augment.interference: none of {len(paths)} files under {folder} is readable audio."
        )
    windows = torch.cat(blocks)
    chosen = np.linspace(0, len(windows) - 1, min(MOST, len(windows))).round().astype(np.int64)
    return as_samples(windows[torch.from_numpy(chosen)], config.data.unit)


def _mel_of(path: Path, log_mel: LogMel) -> list[Tensor]:
    """The clip's windows; none, and a note, if it cannot be read."""
    try:
        return [block.mel for block in MelStream(path, log_mel)]
    except InputError as error:
        LOG.info(f"note     interference left out: {path}: {error}")
        return []
