"""Sites of the new recordings whose sound has moved from that of training, and since when."""

import numpy as np

from leakdet.acoustics.mel import band_centres_hz
from leakdet.detection.detector import MelDetector
from leakdet.detection.drift import Move, find_drift
from leakdet.evaluation.training_reference import features_of
from leakdet.learning.approach import PLACES
from leakdet.learning.recorded_times import recorded_times
from leakdet.storage.views import SplitView


def moved_sites(old: MelDetector, split: SplitView) -> list[str]:
    """A sentence for each site that moved; none where sites or training are unknown, or too few."""
    training = None if old.reference is None else old.reference.distribution
    column = next((name for name in PLACES if name in split.groups), None)
    if training is None or column is None or old.signal is None:
        return []
    features, half = features_of(split).astype(np.float64), training.shape[1] // 2
    drift = find_drift(
        features[:, :half],
        np.zeros(split.recordings),
        split.groups[column].astype(str),
        recorded_times(split.groups, split.recordings),
        training[:, :half],
    )
    centres_hz = band_centres_hz(old.signal)
    return [_sentence(move, float(centres_hz[move.band or 0])) for move in drift.moves]


def _sentence(move: Move, centre_hz: float) -> str:
    side = "stronger" if move.shift > 0 else "weaker"
    other, since = "the training recordings'", ""
    if move.since is not None:
        other, since = "before", f" since {move.since}"
    return (
        f"{move.site} sounds otherwise{since}: its band at {centre_hz:,.0f} Hz is "
        f"{abs(move.shift):.1f} dB {side} than {other}"
    )
