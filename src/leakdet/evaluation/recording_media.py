"""What a store still knows of a recording beyond its score: its log-mel as a picture, its sound where it can be found."""

from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from leakdet.acoustics.clip import Clip, make_clip, read_sound
from leakdet.acoustics.windows import window_starts
from leakdet.config import SignalConfig
from leakdet.errors import InputError
from leakdet.evaluation.scored_recordings import MelColumns
from leakdet.storage.hdf5 import open_h5
from leakdet.storage.store import StoreSplit

PICTURE_WINDOWS = 400  # of a longer recording, only so many windows are drawn


def texts_or_none(split: StoreSplit, dataset: str) -> np.ndarray | None:
    """A text data set [R]; None where the store, as a predecessor's, does not have it."""
    try:
        return split.texts(dataset)
    except KeyError:
        return None


def window_starts_s(split: StoreSplit, durations_s: np.ndarray) -> np.ndarray | None:
    """Where each window starts in its recording, float32 [W]; None where the store does not say how it was cut."""
    signal = split.signal
    if signal is None:
        return None
    hop_s = signal.window_hop_samples / signal.sample_rate_hz
    starts = []
    for count, duration_s in zip(
        split.windows_per_recording.tolist(), durations_s.tolist(), strict=True
    ):
        exact = np.arange(count) * hop_s
        if np.isfinite(duration_s):
            cut = (
                window_starts(round(duration_s * signal.sample_rate_hz), signal)
                / signal.sample_rate_hz
            )
            exact = cut if len(cut) == count else exact
        starts.append(exact)
    return np.concatenate([np.empty(0), *starts]).astype(np.float32)


class StoreEvidence:
    """Evidence for the recordings of one split, in the split's order."""

    def __init__(self, split: StoreSplit, window_start_s: np.ndarray | None) -> None:
        self._split = split
        self._starts_s = window_start_s
        self._paths = texts_or_none(split, "path")
        self._content = texts_or_none(split, "content_sha256")

    def mel(self, row: int) -> MelColumns | None:
        """Columns in time order: what windows share is shown once. Without settings of the mel, window after window."""
        split, signal = self._split, self._split.signal
        first = int(split.recording_offsets[row])
        stop = min(int(split.recording_offsets[row + 1]), first + PICTURE_WINDOWS)
        windows = split.read(first, stop).astype(np.float32)  # [W, S, M, T]
        columns = windows.transpose(0, 1, 3, 2).reshape(len(windows), -1, windows.shape[2])
        if signal is None or self._starts_s is None:
            return MelColumns(columns.reshape(-1, columns.shape[2]).T, None, None, None)
        starts_s = self._starts_s[first:stop]
        picture = _in_time_order(columns, starts_s, signal.window_s)
        return MelColumns(
            picture, float(starts_s[-1]) + signal.window_s, signal.fmin_hz, signal.top_hz
        )

    def clip(self, row: int, start_s: float, most_s: float) -> Clip | None:
        """Sound kept in the store, or the file that it was built from, if that is still there and still the same sound."""
        signal = self._split.signal
        if signal is None or self._paths is None or self._content is None:
            return None
        sound = self._stored_sound(str(self._split.recording_ids[row]))
        if sound is None:
            sound = self._file_sound(str(self._paths[row]), str(self._content[row]), row, signal)
        return None if sound is None else make_clip(sound, signal.sample_rate_hz, start_s, most_s)

    def _file_sound(
        self, name: str, sha256: str, row: int, signal: SignalConfig
    ) -> np.ndarray | None:
        store = self._split.files[0].parent
        # A store that was moved still holds the demo's audio, under the recording's id.
        candidates = (Path(name), store / str(self._split.recording_ids[row]))
        for path in candidates:
            if path.is_file():
                try:
                    sound, content = read_sound(path, signal)
                except InputError:
                    continue
                if content == sha256:
                    return sound
        return None

    def _stored_sound(self, recording_id: str) -> np.ndarray | None:
        if recording_id not in self._kept_sound:
            return None
        path, start, stop = self._kept_sound[recording_id]
        with open_h5(path) as file:
            sound = file["waveform"][start:stop]
        return np.asarray(sound / 32768.0 if sound.dtype == np.int16 else sound, np.float32)

    @cached_property
    def _kept_sound(self) -> dict[str, tuple[Path, int, int]]:
        """Recording -> where its sound lies, of the files that keep sound."""
        found: dict[str, tuple[Path, int, int]] = {}
        for path in self._split.files:
            with open_h5(path) as file:
                if "waveform" in file:
                    offsets = file["waveform_offsets"][...].tolist()
                    names = file["recording_id"].asstr()[...]
                    found |= {
                        str(name): (path, *ends)
                        for name, ends in zip(names, pairwise(offsets), strict=True)
                    }
        return found


def _in_time_order(columns: np.ndarray, starts_s: np.ndarray, window_s: float) -> np.ndarray:
    """[W, columns, mels] of windows that may overlap, to [mels, columns] of the recording."""
    per_window = columns.shape[1]
    column_s = window_s / per_window
    pieces, drawn_until = [], -1e-9
    for window, start in zip(columns, starts_s, strict=True):
        skipped = max(0, round((drawn_until - float(start)) / column_s))
        pieces.append(window[skipped:])
        drawn_until = float(start) + window_s
    return np.concatenate(pieces).T
