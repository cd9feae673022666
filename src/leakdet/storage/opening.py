"""Opens a split of any store that leakdet reads, as splits for training or arrays for notebooks."""

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from leakdet.config import LabelsConfig, SignalConfig
from leakdet.core.errors import InputError
from leakdet.storage.ailh import FILES, is_ailh, open_ailh_split
from leakdet.storage.folder import require_store
from leakdet.storage.store import SPLITS, StoreSplit, open_leakdet_split, split_files
from leakdet.storage.views import labelled, with_sound


def open_split(store: Path, name: str) -> StoreSplit:
    """Open a split, without dead windows and without recordings that have no others.

    Raises:
        InputError: the store or split is missing or damaged, or no recording holds sound.
    """
    require_store(store)
    names = split_names(store)
    if name not in names:
        raise InputError(
            f"{store}: there is no {name} split; it has {', '.join(names) or 'none'}. Build the "
            f"store with a share for {name} in split.ratios, or with a split column."
        )
    if is_ailh(store):
        return open_ailh_split(store, name)
    return with_sound(open_leakdet_split(store, name))


def open_labelled(store: Path, name: str, labels: LabelsConfig | None = None) -> StoreSplit:
    """Open a split under label settings. Raises `InputError` as `open_split` and `labelled` do."""
    return labelled(open_split(store, name), labels)


def split_names(store: Path) -> list[str]:
    """Names of the splits that the store has, in the order train, val, test."""
    if is_ailh(store):
        return [name for name in SPLITS if (store / FILES[name]).exists()]
    return [name for name in SPLITS if split_files(store, name)]


class SplitArrays:
    """The R recordings of a split; iterating gives their names.

    Attributes:
        names: [R] of str.
        labels: [R] of str.
        is_leak: bool [R], by the leak labels that the store names.
        groups: for each group column its values, [R] of str.
        windows: the number of windows of each recording, int64 [R].
        signal: how the mel was made; None where an AILH store does not say it.
    """

    def __init__(self, split: StoreSplit) -> None:
        self._split = split
        self.name = split.name
        self.signal: SignalConfig | None = split.signal

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self)} recordings, {self._split.windows} windows>"

    def __len__(self) -> int:
        return self._split.recordings

    def __iter__(self) -> Iterator[str]:
        return iter(self.names.tolist())

    @cached_property
    def names(self) -> npt.NDArray[Any]:
        return _read_only(self._split.recording_ids)

    @cached_property
    def labels(self) -> npt.NDArray[Any]:
        return _read_only(np.array(self._split.label_names)[self._split.label_id])

    @cached_property
    def is_leak(self) -> npt.NDArray[np.bool_]:
        return _read_only(labelled(self._split).is_leak)

    @cached_property
    def groups(self) -> dict[str, npt.NDArray[Any]]:
        return {column: _read_only(values) for column, values in self._split.groups.items()}

    @cached_property
    def windows(self) -> npt.NDArray[np.int64]:
        return _read_only(self._split.windows_per_recording)

    def mel(self, recording: int | str) -> npt.NDArray[np.float16]:
        """Log-mel of a recording in dB, float16 [windows, segments, mels, frames], by row or name.

        Raises:
            IndexError: there is no such row.
            KeyError: there is no recording of that name.
            InputError: the file is damaged.
        """
        row = self._row(recording)
        start, stop = self._split.recording_offsets[row : row + 2].tolist()
        return self._split.read(start, stop)

    def _row(self, recording: int | str) -> int:
        if not isinstance(recording, str):
            if not -len(self) <= recording < len(self):
                raise IndexError(f"{self.name} has {len(self)} recordings; no row is {recording}")
            return range(len(self))[recording]
        if recording not in self._rows:
            raise KeyError(f"{self.name} has no recording {recording!r}")
        return self._rows[recording]

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self)}


class Store(Mapping[str, SplitArrays]):
    """The splits of a store by name: `store["test"]`, `list(store)`; also a path, its folder's."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._names = split_names(path)

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r}, splits {', '.join(self)})"

    def __fspath__(self) -> str:
        return str(self.path)

    def __getitem__(self, name: str) -> SplitArrays:
        if name not in self._names:
            raise KeyError(f"{self.path} has no split {name!r}; it has {', '.join(self)}")
        return SplitArrays(open_split(self.path, name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def open_store(path: str | os.PathLike[str]) -> Store:
    """A store, read-only: its splits by name, and their recordings as arrays.

    >>> store = open_store("store")
    >>> list(store)
    ['train', 'val', 'test']
    >>> test = store["test"]
    >>> test.mel(0).shape
    (4, 5, 12, 1)
    >>> print(test.names[0], test.labels[0], test.groups["pipe"][0])
    test/0.wav leak test-0

    Raises:
        InputError: there is no store.
    """
    require_store(Path(path))
    return Store(Path(path))


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view
