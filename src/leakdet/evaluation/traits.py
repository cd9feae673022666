"""Traits of recordings that a detector must not live on, and baselines made of them.

Baselines are fitted on training recordings and score others: pure functions on arrays, of which
higher scores mean leak.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from leakdet.acoustics.measures import MAINS_HZ
from leakdet.acoustics.mel import band_centres_hz
from leakdet.config import SignalConfig
from leakdet.detection.calibration import fit_coefficients, sigmoid
from leakdet.evaluation.metrics import auroc
from leakdet.evaluation.recording_media import texts_or_none
from leakdet.storage.store import StoreSplit

MAX_WINDOWS = 40  # per recording: enough for its mean spectrum
MAX_WINDOWS_IN_ALL = 200_000
BLOCK_WINDOWS = 2048
TIME_COLUMNS = ("timestamp", "time", "recorded_at", "datetime", "date")
VISIT_COLUMNS = ("session", "visit", "campaign", "day", "date")


@dataclass
class Traits:
    """Numbers per recording and trait, with their `source`, and why others are `missing`.

    `bands` are level-free band energies in dB of some windows of every recording, `band_recording`
    the row of the recording that each window belongs to; `content` are hashes of the recordings'
    sound.
    """

    bands: Float[np.ndarray, "N M"]
    band_recording: Int[np.ndarray, " N"]
    groups: dict[str, np.ndarray] = field(default_factory=dict)
    content: Shaped[np.ndarray, " R"] | None = None
    values: dict[str, np.ndarray] = field(default_factory=dict)
    source: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, values: np.ndarray, source: str) -> None:
        self.values[name], self.source[name] = values, source

    @property
    def spectrum(self) -> Float[np.ndarray, "R M"]:
        """Mean level-free band energies of each recording."""
        counts = np.bincount(self.band_recording)
        total = np.zeros((len(counts), self.bands.shape[1]))
        np.add.at(total, self.band_recording, self.bands.astype(np.float64))
        return total / counts[:, None]


def traits_of(split: StoreSplit) -> Traits:
    """Compute every trait. Reads some of the windows."""
    bands, level_db, recording = _bands(split)
    groups = {name: values for name, values in split.groups.items() if len(np.unique(values)) > 1}
    traits = Traits(bands, recording, groups, texts_or_none(split, "content_sha256"))
    for name in ("dc_offset", "clipped_fraction", "source_rate_hz"):
        if not _add_stored(traits, split, name, name):
            traits.missing[name] = f"the store has no {name}"
    if not _add_stored(traits, split, "loudness", "rms_dbfs"):
        level = np.bincount(recording, level_db) / np.bincount(recording)
        traits.add("loudness", level, "the mean level of the mel, since the store has no rms_dbfs")
    if not _add_stored(traits, split, "duration", "duration_s"):
        windows = split.windows_per_recording.astype(np.float64)
        traits.add("duration", windows, "the number of windows, since the store has no duration_s")
    centroid, unit = _centroid(traits.spectrum, split.signal)
    traits.add("spectral_centroid", centroid, f"the mel, in {unit}")
    _add_mains_hum(traits, split)
    _add_order(traits, split)
    return traits


def _add_stored(traits: Traits, split: StoreSplit, name: str, dataset: str) -> bool:
    """Add a trait that the store holds for every recording; False where it does not."""
    values = split.numbers(dataset, default=np.nan).astype(np.float64)
    stored = bool(np.isfinite(values).all())
    if stored:
        traits.add(name, values, f"{dataset} of the store")
    return stored


# --- from the mel


def _bands(
    split: StoreSplit,
) -> tuple[Float[np.ndarray, "N M"], Float[np.ndarray, " N"], Int[np.ndarray, " N"]]:
    """Level-free band energies, mean level in dB and recording of some windows."""
    most = max(1, min(MAX_WINDOWS, MAX_WINDOWS_IN_ALL // max(1, split.recordings)))
    bands, levels, recordings = [], [], []
    for index, recording in _spread_windows(split, most):
        dB = split.mel.gather(index).astype(np.float32).mean(axis=(1, 3))
        level = dB.mean(axis=1)
        bands.append(dB - level[:, None])
        levels.append(level)
        recordings.append(recording)
    return np.concatenate(bands), np.concatenate(levels), np.concatenate(recordings)


def _spread_windows(
    split: StoreSplit, most: int
) -> Iterator[tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"]]]:
    """Indices of evenly spread windows of each recording, and their recordings, in blocks."""
    counts = np.minimum(split.windows_per_recording, most)
    recording = np.repeat(np.arange(split.recordings), counts)
    position = np.arange(len(recording)) - np.repeat(np.cumsum(counts) - counts, counts)
    offset = position * split.windows_per_recording[recording] // counts[recording]
    index = split.recording_offsets[recording] + offset
    for start in range(0, len(index), BLOCK_WINDOWS):
        yield index[start : start + BLOCK_WINDOWS], recording[start : start + BLOCK_WINDOWS]


def _centroid(
    spectrum_db: Float[np.ndarray, "R M"], signal: SignalConfig | None
) -> tuple[Float[np.ndarray, " R"], str]:
    """Spectral centroid of each recording, and its unit."""
    bands = np.arange(spectrum_db.shape[1], dtype=np.float64)
    centres = band_centres_hz(signal) if signal else bands
    power = 10.0 ** (spectrum_db / 10.0)
    return (power * centres).sum(1) / power.sum(1), "Hz" if signal else "mel bands"


# --- from the sound


def _add_mains_hum(traits: Traits, split: StoreSplit) -> None:
    """Prominence in dB of the stronger mains frequency, 50 or 60 Hz, with its harmonics."""
    stored = [split.numbers(f"mains_hum_{hz:.0f}_db", default=np.nan) for hz in MAINS_HZ]
    hum_db = np.stack(stored).max(axis=0).astype(np.float64)
    if np.isfinite(hum_db).all():
        traits.add("mains_hum", hum_db, "measured on the audio when the store was built")
        return
    signal = split.signal
    if signal is not None and signal.fmin_hz < MAINS_HZ[0]:
        band = np.abs(band_centres_hz(signal) - MAINS_HZ[1]).argmin()
        source = "the level of the mel band that holds 50 and 60 Hz, over the mean of all"
        traits.add("mains_hum", traits.spectrum[:, band], source)
        return
    reason = f"the mel starts at {signal.fmin_hz:g} Hz" if signal else "the mel's bands are unknown"
    traits.missing["mains_hum"] = (
        f"the store has no mains_hum_50_db, and {reason}: build it again from the audio"
    )


# --- from names


def _add_order(traits: Traits, split: StoreSplit) -> None:
    """Add the order of recording, from a time column or the numbers in file names."""
    column = next((name for name in TIME_COLUMNS if name in traits.groups), None)
    if column is not None:
        keys = [_numbers_in(text) for text in traits.groups[column].tolist()]
        source = f"the column {column}"
    else:
        names = [str(name).replace("\\", "/").rsplit("/", 1)[-1] for name in split.recording_ids]
        keys, source = [_numbers_in(name) for name in names], "the numbers in the file names"
        if len(set(keys)) < max(2, len(keys) // 2):
            traits.missing["recording_order"] = (
                "no column of times, and the file names hold no numbers that order them"
            )
            return
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    order = np.array([ranks[key] for key in keys], np.float64)
    traits.add("recording_order", order, source)
    visit = next((name for name in VISIT_COLUMNS if name in traits.groups and name != column), None)
    if visit is not None:
        within = _rank_within(order, traits.groups[visit])
        traits.add(f"recording_order_in_{visit}", within, f"{source}, counted within each {visit}")


def _numbers_in(text: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", text))


def _rank_within(
    order: Float[np.ndarray, " R"], group: Shaped[np.ndarray, " R"]
) -> Float[np.ndarray, " R"]:
    """Rank of each recording in its group, 0 for the first, 1 for the last, 0.5 if alone."""
    ranks = np.full(len(order), 0.5)
    for name in np.unique(group):
        members = np.flatnonzero(group == name)
        if len(members) > 1:
            _, rank = np.unique(order[members], return_inverse=True)
            ranks[members] = rank / max(1, rank.max())
    return ranks


def trait_scores(
    train: Float[np.ndarray, " A"], is_leak: Bool[np.ndarray, " A"], test: Float[np.ndarray, " B"]
) -> Float[np.ndarray, " B"]:
    """The trait as a score, its sign turned so that leaks score higher in training.

    The value itself is kept, so that scores of several folds can be pooled.
    """
    area = auroc(train, is_leak)
    return -test if area is not None and area < 0.5 else test.copy()


def group_scores(
    train: Shaped[np.ndarray, " A"], is_leak: Bool[np.ndarray, " A"], test: Shaped[np.ndarray, " B"]
) -> Float[np.ndarray, " B"]:
    """Log-odds of a leak in the recording's group over those of all; 0 for an unseen group.

    Each group is smoothed by one more recording of the average leak share.
    """
    names, number = np.unique(train, return_inverse=True)
    share = float(is_leak.mean())
    leaks = np.bincount(number, is_leak, len(names)) + share
    others = np.bincount(number, ~is_leak, len(names)) + 1.0 - share
    log_odds = np.log(leaks / others) - np.log(share / (1.0 - share))
    index = np.clip(np.searchsorted(names, test), 0, len(names) - 1)
    return np.where(names[index] == test, log_odds[index], 0.0)


@dataclass(frozen=True)
class Logistic:
    """Logistic regression on standardised features."""

    mean: Float[np.ndarray, " M"]
    deviation: Float[np.ndarray, " M"]
    coef: Float[np.ndarray, " M"]
    intercept: float

    def prob(self, features: Float[np.ndarray, "N M"]) -> Float[np.ndarray, " N"]:
        """Leak probability of each row."""
        return sigmoid((features - self.mean) / self.deviation @ self.coef + self.intercept)


def fit_logistic(
    features: Float[np.ndarray, "N M"], is_leak: Bool[np.ndarray, " N"], c: float = 1.0
) -> Logistic:
    """Minimise sum(cross-entropy) + |coef|^2 / (2 c) on standardised features; intercept free."""
    x = features.astype(np.float64)
    mean, deviation = x.mean(0), x.std(0)
    deviation = np.where(deviation > 1e-9, deviation, 1.0)
    x = np.column_stack([(x - mean) / deviation, np.ones(len(x))])
    penalty = np.append(np.full(x.shape[1] - 1, 1.0), 0.0) / (c * len(x))
    coef = fit_coefficients(x, is_leak.astype(np.float64), penalty=penalty)
    return Logistic(mean, deviation, coef[:-1], float(coef[-1]))


def mean_by(
    values: Float[np.ndarray, " N"], owner: Int[np.ndarray, " N"], owners: int
) -> Float[np.ndarray, " owners"]:
    """Mean of the values of each owner; 0 where an owner has none."""
    counts = np.bincount(owner, minlength=owners)
    return np.asarray(np.bincount(owner, values, owners) / np.maximum(1, counts))
