"""Does the store hold, under each recording's id, the mel of that recording's audio?

The predecessor's did not: a shared buffer gave most files another file's mel, and weeks went into fighting the result.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from leakdet._parallel import in_order
from leakdet._progress import Advance
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.surrogates import Surrogate
from leakdet.acoustics.windows import MelStream
from leakdet.errors import InputError
from leakdet.storage.store import SPLITS, StoreSplit, open_split
from leakdet.storage.surrogate_split import SURROGATES

SAMPLE = 16  # at least so many recordings of each split, or two in a hundred
MOST_DB = 0.125  # two steps of float16 at 100 dB; another recording's mel differs by whole dB


@dataclass(frozen=True)
class _Comparison:
    """Largest difference in dB between a recording's stored mel and one computed from its audio now."""

    split: StoreSplit
    paths: list[Path]
    log_mel: LogMel

    def __call__(self, row: int) -> float:
        low, high = self.split.recording_offsets[row : row + 2]
        stored = self.split.mel.rows(int(low), int(high)).astype(np.float32)
        change = None
        if self.split.has("surrogate_of"):
            change = Surrogate(str(self.split.recording_ids[row]), self.log_mel.signal.sample_rate_hz)
        stream = MelStream(self.paths[row], self.log_mel, change)
        fresh = torch.cat([block.mel for block in stream]).float().numpy()
        return float(np.abs(stored - fresh).max()) if stored.shape == fresh.shape else float("inf")


def verify(folder: Path, out: Path, log_mel: LogMel, every: bool, workers: int = 0, suffix: str = "") -> None:
    """Recompute the mel of a sample of each split in `folder`, or of `every` recording. `out` is where it will be published.

    Raises:
        InputError: a stored mel is not that of its audio; the message names the recording.
    """
    for name in (*SPLITS, SURROGATES):
        file = folder / f"{name}{suffix}.h5"
        if file.exists():
            split = open_split(folder, name, [file])
            count = split.recordings if every else max(SAMPLE, split.recordings // 50)
            chosen = np.sort(np.random.default_rng(0).permutation(split.recordings)[:count]).tolist()
            _verify_split(split, chosen, folder, out, log_mel, workers)


def _verify_split(
    split: StoreSplit, chosen: list[int], folder: Path, out: Path, log_mel: LogMel, workers: int
) -> None:
    paths = [Path(str(path).replace(str(out), str(folder), 1)) for path in split.texts("path")]
    with Advance(f"verifying {split.name}", len(chosen), "recordings") as progress:
        for row, difference_db in in_order(_Comparison(split, paths, log_mel), chosen, workers):
            progress.step()
            if difference_db > MOST_DB:
                raise InputError(
                    f"{split.name}: the stored mel of {split.recording_ids[row]} is not that of its audio (off by "
                    f"{difference_db:.2f} dB). Nothing was published. Did the audio change during the build? If not, this "
                    "is a fault of leakdet: please report it."
                )
