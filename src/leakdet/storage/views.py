"""Views: recordings picked from the splits of a store, as a split of their own, such as a fold.

A view holds row numbers; its mel is gathered from the store's files when it is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Int

from leakdet.errors import InputError
from leakdet.storage.hdf5 import open_h5
from leakdet.storage.mel_array import MelArray
from leakdet.storage.store import StoreSplit, offsets_of


class PickedMel(MelArray):
    """Some windows of a `MelArray`, in any order, under the same interface."""

    def __init__(self, base: MelArray, windows: Int[np.ndarray, " W"]) -> None:
        super().__init__(base.parts)
        self._windows = windows

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self._windows), *super().shape[1:]

    @property
    def mapped(self) -> np.ndarray | None:
        """Picked windows do not lie one after another in a file."""
        return None

    def read(self, start: int, stop: int, out: np.ndarray | None = None) -> np.ndarray:
        """Picked windows [start, stop) in memory of their own, or in `out`."""
        return super().gather(self._windows[start:stop], out)

    def gather(self, index: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Picked windows `index` [N], any order, duplicates allowed."""
        return super().gather(self._windows[index], out)


@dataclass
class SplitView(StoreSplit):
    """Recordings `picked` [R] of `bases`, counted over all of them, as one split."""

    bases: list[StoreSplit] = field(default_factory=list)
    picked: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    def take(self, recordings: Int[np.ndarray, " N"], name: str) -> "SplitView":
        """Recordings `recordings` of this view, in that order, as a view called `name`."""
        return replace(
            _view(name, self.bases, self.picked[recordings]), label_id=self.label_id[recordings]
        )

    def with_shuffled_labels(self, seed: int) -> "SplitView":
        """The same recordings with permuted labels: a null test."""
        return replace(self, label_id=np.random.default_rng(seed).permutation(self.label_id))

    @cached_property
    def recording_ids(self) -> np.ndarray:
        """Names of the recordings, as in their own splits."""
        return np.asarray(np.concatenate([base.recording_ids for base in self.bases])[self.picked])

    @cached_property
    def groups(self) -> dict[str, np.ndarray]:
        """Group column -> [R] of str; blank for recordings of a split that lacks the column."""
        columns = sorted({column for base in self.bases for column in base.groups})
        blank = [np.full(base.recordings, "") for base in self.bases]
        return {
            column: np.concatenate(
                [
                    base.groups.get(column, none)
                    for base, none in zip(self.bases, blank, strict=True)
                ]
            )[self.picked]
            for column in columns
        }

    def texts(self, dataset: str) -> np.ndarray:
        """A text data set of the picked recordings, [R] of str."""
        return np.asarray(np.concatenate([base.texts(dataset) for base in self.bases])[self.picked])

    def numbers(self, dataset: str, default: float) -> np.ndarray:
        """A numeric data set of the picked recordings; `default` where a split lacks it."""
        return np.asarray(
            np.concatenate([base.numbers(dataset, default) for base in self.bases])[self.picked]
        )


def pooled(splits: Sequence[StoreSplit]) -> SplitView:
    """All recordings of all `splits`, one split after the other.

    Raises:
        InputError: the splits disagree on vocabulary, leak label or signal.
    """
    first = splits[0]
    for split in splits[1:]:
        for what in ("label_names", "leak_label", "signal"):
            if _plain(getattr(split, what)) != _plain(getattr(first, what)):
                raise InputError(
                    f"{split.files[0]}: its {what} differs from that of {first.files[0].name}; to "
                    "be "
                    "pooled, the splits of a store must agree. Build them together."
                )
    return _view("all", list(splits), np.arange(sum(split.recordings for split in splits)))


def _plain(value: object) -> object:
    """Label names without their case."""
    return [str(name).casefold() for name in value] if isinstance(value, list) else value


def file_rows(split: StoreSplit) -> list[tuple[Path, int]]:
    """The file of each recording, and its row there."""
    if isinstance(split, SplitView):
        rows = [place for base in split.bases for place in file_rows(base)]
        return [rows[row] for row in split.picked.tolist()]
    places = []
    for path in split.files:
        with open_h5(path) as file:
            name = "label_id" if "label_id" in file else "labels"
            places += [(path, row) for row in range(len(file[name]))]
    return places


def _view(name: str, bases: list[StoreSplit], picked: np.ndarray) -> SplitView:
    first = bases[0]
    mel = MelArray([part for base in bases for part in base.mel.parts])
    offsets = offsets_of([int(count) for base in bases for count in base.windows_per_recording])
    label_id = np.concatenate([base.label_id for base in bases])
    spans = [np.arange(offsets[row], offsets[row + 1]) for row in picked.tolist()]
    return SplitView(
        name=name,
        files=[file for base in bases for file in base.files],
        mel=PickedMel(mel, np.concatenate([np.empty(0, np.int64), *spans])),
        recording_offsets=offsets_of([len(span) for span in spans]),
        label_id=label_id[picked],
        label_names=first.label_names,
        leak_label=first.leak_label,
        signal=first.signal,
        signal_unknown=first.signal_unknown,
        bases=bases,
        picked=picked,
    )
