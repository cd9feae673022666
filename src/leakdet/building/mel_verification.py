"""Verifies that a store holds, for each recording, the mel of that recording's audio.

In AILH stores, a shared buffer once gave most recordings the mel of another file, unnoticed for
weeks.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from leakdet._parallel import in_order
from leakdet._progress import ProgressCounter
from leakdet._remote import RemoteFile, place
from leakdet.acoustics.mel import LogMel
from leakdet.building.extraction import mel_stream
from leakdet.errors import InputError
from leakdet.storage.opening import SURROGATES
from leakdet.storage.store import SPLITS, StoreSplit, open_leakdet_split

MIN_RECORDINGS = 16  # verified in each split; of a large one, every fiftieth
MAX_DIFFERENCE_DB = 0.125  # two steps of float16 at 100 dB; other recordings differ by whole dB


@dataclass(frozen=True)
class _MelDifference:
    """Largest difference in dB between a recording's stored mel and one computed from its audio."""

    split: StoreSplit
    paths: list[Path | RemoteFile]
    channels: Shaped[np.ndarray, " R"]
    log_mel: LogMel

    def __call__(self, row: int) -> float:
        at, end = self.split.recording_offsets[row : row + 2].tolist()
        name = str(self.split.recording_ids[row]) if self.split.has("surrogate_of") else None
        largest = 0.0
        # block by block, so that a day of sound is never in memory whole
        channel = int(self.channels[row])
        for block in mel_stream(self.paths[row], self.log_mel, name, channel):
            fresh = block.mel.float().numpy()
            if at + len(fresh) > end:
                return math.inf
            stored = self.split.read(at, at + len(fresh)).astype(np.float32)
            largest = float(np.maximum(largest, np.abs(stored - fresh).max()))  # NaN stays NaN
            at += len(fresh)
        return largest if at == end else math.inf


def verify_mel(folder: Path, out: Path, log_mel: LogMel, full: bool, workers: int = 0) -> None:
    """Recompute the mel of a sample of each split in `folder`, or of all recordings if `full`.

    `out` is where the store will be published.

    Raises:
        InputError: a stored mel is not that of its audio; the message names the recording.
    """
    for name in (*SPLITS, SURROGATES):
        file = folder / f"{name}.h5"
        if file.exists():
            split = open_leakdet_split(folder, name, [file])
            count = max(MIN_RECORDINGS, split.recordings // 50)
            rows = np.random.default_rng(0).permutation(split.recordings)
            chosen = np.sort(rows if full else rows[:count]).tolist()
            _verify_split(split, chosen, folder, out, log_mel, workers)


def _verify_split(
    split: StoreSplit, rows: list[int], folder: Path, out: Path, log_mel: LogMel, workers: int
) -> None:
    paths = [place(str(path).replace(str(out), str(folder), 1)) for path in split.texts("path")]
    difference = _MelDifference(split, paths, split.numbers("channel", 0.0), log_mel)
    with ProgressCounter(f"verifying {split.name}", len(rows), "recordings") as progress:
        for row, difference_db in in_order(difference, rows, workers):
            progress.step()
            if not difference_db <= MAX_DIFFERENCE_DB:  # true for NaN too
                raise InputError(
                    f"{split.name}: the stored mel of {split.recording_ids[row]} is not that of "
                    f"its audio (off by {difference_db:.2f} dB). Nothing was published. Did the "
                    "audio change during the build? If not, this is a fault of leakdet: please "
                    "report it."
                )
