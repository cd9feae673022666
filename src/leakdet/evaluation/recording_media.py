"""Picture and sound of a store's recordings: the log-mel in time order, and a clip."""

import zlib
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Float, Shaped

from leakdet.acoustics.clip import (
    PICTURE_WINDOWS,
    Clip,
    MelColumns,
    make_clip,
    mel_columns,
    read_sound,
)
from leakdet.acoustics.windows import window_starts
from leakdet.config import SignalConfig
from leakdet.core.errors import InputError
from leakdet.core.locations import excerpt
from leakdet.core.messages import LOG
from leakdet.storage.hdf5 import open_h5
from leakdet.storage.store import StoreSplit


def texts_or_none(split: StoreSplit, dataset: str) -> Shaped[np.ndarray, " R"] | None:
    """A text data set; None where the store does not have it, as those of AILH do not."""
    try:
        return split.texts(dataset)
    except KeyError:
        return None


def window_starts_s(
    split: StoreSplit, durations_s: Float[np.ndarray, " R"]
) -> Float[np.ndarray, " W"] | None:
    """Start of each window in its recording; None without the store's signal settings."""
    signal = split.signal
    if signal is None:
        return None
    starts = [np.empty(0, np.int64)]
    numbers = np.split(split.window_numbers, split.recording_offsets[1:-1])
    counts = split.stored_windows.tolist()
    for number, count, duration_s in zip(numbers, counts, durations_s.tolist(), strict=True):
        samples = np.arange(count) * signal.window_hop_samples
        if np.isfinite(duration_s):
            exact = window_starts(round(duration_s * signal.sample_rate_hz), signal)
            samples = exact if len(exact) == count else samples
        starts.append(samples[number])
    return np.asarray(np.concatenate(starts) / signal.sample_rate_hz, np.float32)


class StoreMedia:
    """Picture and sound of the recordings of one split, in its order (a `RecordingMedia`)."""

    def __init__(self, split: StoreSplit, window_start_s: Float[np.ndarray, " W"] | None) -> None:
        self._split = split
        self._starts_s = window_start_s
        self._paths = texts_or_none(split, "path")
        self._content = texts_or_none(split, "content_sha256")
        self._channels, self._spans = split.numbers("channel", 0.0), split.spans()

    def mel(self, row: int) -> MelColumns:
        """Columns in time order, overlaps drawn once if the signal settings are known."""
        split, signal = self._split, self._split.signal
        first = int(split.recording_offsets[row])
        stop = min(int(split.recording_offsets[row + 1]), first + PICTURE_WINDOWS)
        windows = split.read(first, stop).astype(np.float32)  # [W, S, M, T]
        if signal is None or self._starts_s is None:
            return mel_columns(windows)
        return mel_columns(windows, self._starts_s[first:stop], signal)

    def clip(self, row: int, start_s: float, max_s: float) -> Clip | None:
        """Sound kept in the store, or its source file if that still has the same content."""
        signal = self._split.signal
        if signal is None or self._paths is None or self._content is None:
            return None
        sound = self._stored_sound(str(self._split.recording_ids[row]))
        if sound is None:
            sound = self._file_sound(str(self._paths[row]), str(self._content[row]), row, signal)
        return None if sound is None else make_clip(sound, signal.sample_rate_hz, start_s, max_s)

    def _file_sound(
        self, name: str, sha256: str, row: int, signal: SignalConfig
    ) -> Float[np.ndarray, " N"] | None:
        # A demo store that was moved still holds its audio, under the recordings' ids.
        store = self._split.files[0].parent
        for path in (Path(name), store / str(self._split.recording_ids[row])):
            if path.is_file():
                try:
                    source = excerpt(path, self._spans[row])
                    sound, content = read_sound(source, signal, int(self._channels[row]))
                except InputError:
                    continue
                if content == sha256:
                    return sound
        return None

    def _stored_sound(self, recording_id: str) -> Float[np.ndarray, " N"] | None:
        if recording_id not in self._sound_places:
            return None
        path, start, stop, crc32 = self._sound_places[recording_id]
        with open_h5(path) as file:
            sound = file["waveform"][start:stop]
        if zlib.crc32(np.ascontiguousarray(sound).data) != crc32:
            LOG.warning(f"{path}: the sound that it keeps of {recording_id} is damaged: not played")
            return None
        return np.asarray(sound / 32768.0 if sound.dtype == np.int16 else sound, np.float32)

    @cached_property
    def _sound_places(self) -> dict[str, tuple[Path, int, int, int]]:
        """File, start, stop and CRC-32 of each recording's sound, for the files that keep sound."""
        places: dict[str, tuple[Path, int, int, int]] = {}
        for path in self._split.files:
            with open_h5(path) as file:
                if "waveform" in file:
                    bounds = pairwise(file["waveform_offsets"][...].tolist())
                    names = file["recording_id"].asstr()[...].tolist()
                    sums = file["waveform_crc32"][...].tolist()
                    places |= {
                        name: (path, start, stop, crc32)
                        for name, (start, stop), crc32 in zip(names, bounds, sums, strict=True)
                    }
        return places
