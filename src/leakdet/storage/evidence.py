"""What a store still knows of a recording beyond its score: its log-mel as a picture, its sound where it can be found."""

from pathlib import Path

import numpy as np

from leakdet.acoustics.clip import Clip, make_clip, read_sound
from leakdet.config import SignalConfig
from leakdet.errors import InputError
from leakdet.storage.scored import MelColumns
from leakdet.storage.store import StoreSplit, open_h5

PICTURE_WINDOWS = 400  # of a longer recording, only so many windows are drawn


class StoreEvidence:
    """Evidence for the recordings of one split, in the split's order."""

    def __init__(self, split: StoreSplit) -> None:
        self._split = split
        self._starts = split.window_start_s
        self._paths = split.optional_texts("path")
        self._content = split.optional_texts("content_sha256")

    def mel(self, row: int) -> MelColumns | None:
        """Columns in time order: what windows share is shown once. Without settings of the mel, window after window."""
        split = self._split
        first = int(split.recording_offsets[row])
        stop = min(int(split.recording_offsets[row + 1]), first + PICTURE_WINDOWS)
        windows = np.asarray(split.mel.rows(first, stop)).astype(np.float32)  # [W, S, M, T]
        columns = windows.transpose(0, 1, 3, 2).reshape(len(windows), -1, windows.shape[2])
        signal = split.signal
        if signal is None:
            return MelColumns(columns.reshape(-1, columns.shape[2]).T, None, None, None)
        starts_s = np.arange(len(windows)) * (signal.window_hop_samples / signal.sample_rate_hz)
        if self._starts is not None:
            starts_s = self._starts[first:stop]
        picture = _in_time_order(columns, starts_s, signal.window_s)
        return MelColumns(picture, float(starts_s[-1]) + signal.window_s, signal.fmin_hz, signal.top_hz)

    def clip(self, row: int, start_s: float, most_s: float) -> Clip | None:
        """Sound kept in the store, or the file that it was built from, if that is still there and still the same sound."""
        signal = self._split.signal
        if signal is None:
            return None
        sound = self._stored_sound(row)
        if sound is None:
            sound = self._file_sound(row, signal)
        return None if sound is None else make_clip(sound, signal.sample_rate_hz, start_s, most_s)

    def _file_sound(self, row: int, signal: SignalConfig) -> np.ndarray | None:
        if self._paths is None or self._content is None:
            return None
        store = self._split.files[0].parent
        # A store that was moved still holds the demo's audio, under the recording's id.
        candidates = (Path(str(self._paths[row])), store / str(self._split.recording_ids[row]))
        for path in candidates:
            if path.is_file():
                try:
                    sound, content = read_sound(path, signal)
                except InputError:
                    continue
                if content == str(self._content[row]):
                    return sound
        return None

    def _stored_sound(self, row: int) -> np.ndarray | None:
        for path in self._split.files:
            with open_h5(path) as file:
                recordings = len(file["recording_offsets"]) - 1 if "recording_offsets" in file else 0
                if row >= recordings:
                    row -= recordings
                    continue
                if "waveform" not in file:
                    return None
                start, stop = (int(end) for end in file["waveform_offsets"][row : row + 2])
                sound = file["waveform"][start:stop]
            return np.asarray(sound / 32768.0 if sound.dtype == np.int16 else sound, np.float32)
        return None


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
