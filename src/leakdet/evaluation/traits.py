"""What a store says of its recordings besides whether they leak: traits that no leak detector should need."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from leakdet.acoustics.hum import MAINS_HZ, mains_hum_db
from leakdet.acoustics.mel import band_centres_hz
from leakdet.config import SignalConfig
from leakdet.storage.hdf5 import open_h5
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import places_of

MOST_WINDOWS = 40  # of a recording: enough for its mean spectrum
MOST_IN_ALL = 200_000
BLOCK_WINDOWS = 2048
MOST_SOUND_S = 10
TIME_COLUMNS = ("timestamp", "time", "recorded_at", "datetime", "date")
VISIT_COLUMNS = ("session", "visit", "campaign", "day", "date")


@dataclass
class Traits:
    """One number per recording and trait [R], with what it was computed from; and why a trait has none.

    `bands` [N, M] are level-free band energies in dB of some windows of every recording, `band_recording` [N] whose they are.
    """

    values: dict[str, np.ndarray]
    source: dict[str, str]
    missing: dict[str, str]
    bands: np.ndarray
    band_recording: np.ndarray
    groups: dict[str, np.ndarray] = field(default_factory=dict)
    content: np.ndarray | None = None  # hash of each recording's sound, [R] of str

    @property
    def spectrum(self) -> np.ndarray:
        """Mean level-free band energies of each recording, float64 [R, M]."""
        counts = np.bincount(self.band_recording)
        total = np.zeros((len(counts), self.bands.shape[1]))
        np.add.at(total, self.band_recording, self.bands.astype(np.float64))
        return total / counts[:, None]


def traits_of(split: StoreSplit) -> Traits:
    """Every trait of every recording of a split. Reads a sample of its windows, and its sound where it is stored."""
    bands, level_db, recording = _bands(split)
    groups = {name: found for name, found in split.groups.items() if len(np.unique(found)) > 1}
    made = Traits({}, {}, {}, bands, recording, groups, _content(split))
    for name in ("dc_offset", "clipped_fraction", "source_rate_hz"):
        _stored(made, split, name, name)
    if not _stored(made, split, "loudness", "rms_dbfs"):
        made.values["loudness"] = np.bincount(recording, level_db) / np.bincount(recording)
        made.source["loudness"] = "the mean level of the mel, since the store has no rms_dbfs"
        del made.missing["loudness"]
    if not _stored(made, split, "duration", "duration_s"):
        made.values["duration"] = split.windows_per_recording.astype(np.float64)
        made.source["duration"] = "the number of windows, since the store has no duration_s"
        del made.missing["duration"]
    centroid, unit = _centroid(made.spectrum, split.signal)
    made.values["spectral_centroid"], made.source["spectral_centroid"] = (
        centroid,
        f"the mel, in {unit}",
    )
    _mains_hum(made, split)
    _order(made, split)
    return made


def _stored(made: Traits, split: StoreSplit, name: str, dataset: str) -> bool:
    values = split.numbers(dataset, default=np.nan).astype(np.float64)
    if not np.isfinite(values).all():
        made.missing[name] = f"the store has no {dataset}"
        return False
    made.values[name], made.source[name] = values, f"{dataset} of the store"
    return True


def _content(split: StoreSplit) -> np.ndarray | None:
    try:
        return split.texts("content_sha256")
    except KeyError:  # a predecessor's store
        return None


# ------------------------------------------------------------------------------------------------ from the mel


def _bands(split: StoreSplit) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Level-free band energies [N, M], mean level in dB [N] and recording [N] of windows spread over each recording."""
    most = max(1, min(MOST_WINDOWS, MOST_IN_ALL // max(1, split.recordings)))
    bands, levels, recordings = [], [], []
    for index, recording in _picked_windows(split, most):
        dB = split.mel.gather(index).astype(np.float32).mean(axis=(1, 3))
        level = dB.mean(axis=1)
        bands.append(dB - level[:, None])
        levels.append(level)
        recordings.append(recording)
    return np.concatenate(bands), np.concatenate(levels), np.concatenate(recordings)


def _picked_windows(split: StoreSplit, most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    counts = np.minimum(split.windows_per_recording, most)
    recording = np.repeat(np.arange(split.recordings), counts)
    place = np.arange(len(recording)) - np.repeat(np.cumsum(counts) - counts, counts)
    index = (
        split.recording_offsets[recording]
        + place * split.windows_per_recording[recording] // counts[recording]
    )
    for start in range(0, len(index), BLOCK_WINDOWS):
        yield index[start : start + BLOCK_WINDOWS], recording[start : start + BLOCK_WINDOWS]


def _centroid(spectrum_db: np.ndarray, signal: SignalConfig | None) -> tuple[np.ndarray, str]:
    centres = (
        band_centres_hz(signal) if signal else np.arange(spectrum_db.shape[1], dtype=np.float64)
    )
    power = 10.0 ** (spectrum_db / 10.0)
    return (power * centres).sum(1) / power.sum(1), "Hz" if signal else "mel bands"


# ------------------------------------------------------------------------------------------------ from the sound


def _mains_hum(made: Traits, split: StoreSplit) -> None:
    """How far the mains frequency and its harmonics stand out, in dB; which of 50 and 60 Hz, the sound itself says."""
    measured = np.stack(
        [split.numbers(f"mains_hum_{hz:.0f}_db", default=np.nan) for hz in MAINS_HZ]
    )
    if np.isfinite(measured).all():
        made.values["mains_hum"] = measured.max(axis=0).astype(np.float64)
        made.source["mains_hum"] = "measured on the audio when the store was built"
        return
    found = [max(mains_hum_db(sound, rate_hz)) for sound, rate_hz in stored_sound(split)]
    if len(found) == split.recordings:
        made.values["mains_hum"], made.source["mains_hum"] = np.array(found), "the stored waveform"
        return
    signal = split.signal
    if signal is not None and signal.fmin_hz < MAINS_HZ[0]:
        low = np.abs(band_centres_hz(signal) - MAINS_HZ[1]).argmin()
        made.values["mains_hum"] = made.spectrum[:, low]
        made.source["mains_hum"] = (
            "the level of the mel band that holds 50 and 60 Hz, over the mean of all"
        )
        return
    start = (
        f"the mel starts at {signal.fmin_hz:g} Hz"
        if signal
        else "the mel's bands are not described"
    )
    made.missing["mains_hum"] = (
        f"the store has no mains_hum_50_db, {start}, and no sound is stored: build it again from the audio"
    )


def stored_sound(split: StoreSplit) -> Iterator[tuple[np.ndarray, int]]:
    """The stored sound (its first 10 s) of each recording with its rate, in the split's order; nothing where none is stored."""
    if split.signal is None:
        return
    for file, row in places_of(split):
        with open_h5(file) as opened:
            if "waveform" not in opened:
                return
            start, stop = opened["waveform_offsets"][row : row + 2]
            rate_hz = split.signal.sample_rate_hz
            sound = opened["waveform"][start : min(stop, start + MOST_SOUND_S * rate_hz)]
            yield sound.astype(np.float32), rate_hz


# ------------------------------------------------------------------------------------------------ from names


def _order(made: Traits, split: StoreSplit) -> None:
    """When a recording was made: from a column of times, or the numbers in its file's name; overall and within its visit."""
    column = next((name for name in TIME_COLUMNS if name in made.groups), None)
    if column is not None:
        keys, source = (
            [_natural(text) for text in made.groups[column].tolist()],
            f"the column {column}",
        )
    else:
        names = [str(name).replace("\\", "/").rsplit("/", 1)[-1] for name in split.recording_ids]
        keys, source = [_natural(name) for name in names], "the numbers in the file names"
        if len(set(keys)) < max(2, len(keys) // 2):
            made.missing["recording_order"] = (
                "no column of times, and the file names hold no numbers that order them"
            )
            return
    places = {key: place for place, key in enumerate(sorted(set(keys)))}
    order = np.array([places[key] for key in keys], np.float64)
    made.values["recording_order"], made.source["recording_order"] = order, source
    visit = next((name for name in VISIT_COLUMNS if name in made.groups and name != column), None)
    if visit is not None:
        name = f"recording_order_in_{visit}"
        made.values[name] = _rank_within(order, made.groups[visit])
        made.source[name] = f"{source}, counted within each {visit}"


def _natural(text: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", text))


def _rank_within(order: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Place of each recording in its group, from 0 for the first to 1 for the last; 0.5 where it is alone."""
    ranks = np.full(len(order), 0.5)
    for name in np.unique(group):
        members = np.flatnonzero(group == name)
        if len(members) > 1:
            _, place = np.unique(order[members], return_inverse=True)
            ranks[members] = place / max(1, place.max())
    return ranks
