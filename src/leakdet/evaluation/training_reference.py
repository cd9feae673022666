"""The spectral reference of a training split: what its recordings sound like."""

from pathlib import Path

import numpy as np
from jaxtyping import Float, Shaped

from leakdet.detection.band_features import FeatureSums
from leakdet.detection.spectral_reference import FEWEST, MIN_GROUPS, SpectralReference
from leakdet.evaluation.split_scores import split_group_by, window_blocks
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import pooled

MAX_READ = 16_384  # recordings: of more, as many are drawn at random


def training_reference(store: Path, train: StoreSplit, seed: int = 0) -> SpectralReference | None:
    """The reference of the pipe recordings of `train`, opened with its labels.

    None where they are too few.

    Recordings without a leak and with less than half of the largest weight are negatives such as
    rain and taps: they are no pipes, and what sounds like them is not familiar.
    """
    is_leak = train.is_leak
    weight = train.numbers("weight", default=1.0)
    rows = np.flatnonzero(is_leak | (weight >= weight.max() / 2))
    if len(rows) > MAX_READ:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MAX_READ, replace=False))
    view = pooled([train]).take(rows, train.name)
    group = _units(view, columns := split_group_by(store))
    return SpectralReference.of(features_of(view), is_leak[rows], group, "/".join(columns))


def features_of(split: StoreSplit) -> Float[np.ndarray, "R F"]:
    """Features of every recording of a split. Reads all of its windows."""
    sums = FeatureSums(split.recording_offsets, split.mel.shape[2])
    for block in window_blocks(split):
        sums.add(block)
    return sums.features()


def _units(split: StoreSplit, columns: list[str]) -> Shaped[np.ndarray, " R"] | None:
    """The group of each recording over these columns, as build divides them.

    A recording of which all are blank is a group of its own.
    """
    if not columns or any(column not in split.groups for column in columns):
        return None
    values = np.stack([split.groups[column].astype(str) for column in columns])
    joined = np.array(["/".join(of_recording) for of_recording in values.T.tolist()])
    return np.where((values == "").all(axis=0), split.recording_ids.astype(str), joined)


def reference_sentence(reference: SpectralReference | None) -> str:
    """A sentence on what the model will know of the sounds in training."""
    if reference is None:
        return (
            f"familiar fewer than {FEWEST} training recordings: too few to say what is familiar, "
            "so predict will decide any sound"
        )
    facts = reference.facts
    known = f"familiar {facts['recordings']} training recordings are the reference for new ones"
    if facts["left_out"] != "recording":
        one = f"one {facts['left_out']} of {facts['groups']}"
        return f"{known}; the limits come from leaving out {one} at a time"
    return (
        f"{known}; the store was split by fewer than {MIN_GROUPS} groups, so the limits come from "
        "leaving out single recordings: at a new place many may be undecided"
    )
