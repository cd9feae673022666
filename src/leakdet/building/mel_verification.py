"""Does the store hold, under each recording's id, the mel of that recording's audio?

The predecessor's did not: a shared buffer gave most files another file's mel, and weeks went into fighting the result.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leakdet._parallel import in_order
from leakdet._progress import Advance
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.surrogates import SurrogateTransform
from leakdet.acoustics.windows import MelStream
from leakdet.errors import InputError
from leakdet.storage.opening import SURROGATES
from leakdet.storage.store import SPLITS, StoreSplit, open_split

SAMPLE = 16  # at least so many recordings of each split, or two in a hundred
MOST_DB = 0.125  # two steps of float16 at 100 dB; another recording's mel differs by whole dB


@dataclass(frozen=True)
class _Comparison:
    """Largest difference in dB between a recording's stored mel and one computed from its audio now."""

    split: StoreSplit
    paths: list[Path]
    log_mel: LogMel

    def __call__(self, row: int) -> float:
        at, end = self.split.recording_offsets[row : row + 2].tolist()
        change = None
        if self.split.has("surrogate_of"):
            change = SurrogateTransform(
                str(self.split.recording_ids[row]), self.log_mel.signal.sample_rate_hz
            )
        largest = 0.0
        # block by block: a day of sound is never in memory whole
        for block in MelStream(self.paths[row], self.log_mel, change):
            fresh = block.mel.float().numpy()
            if at + len(fresh) > end:
                return math.inf
            stored = self.split.read(at, at + len(fresh)).astype(np.float32)
            largest = float(np.maximum(largest, np.abs(stored - fresh).max()))  # NaN stays NaN
            at += len(fresh)
        return largest if at == end else math.inf


def verify(
    folder: Path, out: Path, log_mel: LogMel, every: bool, workers: int = 0, suffix: str = ""
) -> None:
    """Recompute the mel of a sample of each split in `folder`, or of `every` recording. `out` is where it will be published.

    Raises:
        InputError: a stored mel is not that of its audio; the message names the recording.
    """
    for name in (*SPLITS, SURROGATES):
        file = folder / f"{name}{suffix}.h5"
        if file.exists():
            split = open_split(folder, name, [file])
            count = split.recordings if every else max(SAMPLE, split.recordings // 50)
            chosen = np.sort(
                np.random.default_rng(0).permutation(split.recordings)[:count]
            ).tolist()
            _verify_split(split, chosen, folder, out, log_mel, workers)


def _verify_split(
    split: StoreSplit, chosen: list[int], folder: Path, out: Path, log_mel: LogMel, workers: int
) -> None:
    paths = [Path(str(path).replace(str(out), str(folder), 1)) for path in split.texts("path")]
    with Advance(f"verifying {split.name}", len(chosen), "recordings") as progress:
        for row, difference_db in in_order(_Comparison(split, paths, log_mel), chosen, workers):
            progress.step()
            if not difference_db <= MOST_DB:  # NaN is no agreement
                raise InputError(
                    f"{split.name}: the stored mel of {split.recording_ids[row]} is not that of its audio (off by "
                    f"{difference_db:.2f} dB). Nothing was published. Did the audio change during the build? If not, this "
                    "is a fault of leakdet: please report it."
                )
