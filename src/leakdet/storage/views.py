"""Views: recordings, windows or classes picked from splits, as a split of their own.

A view holds row numbers; its mel is gathered from the store's files when it is read. It has live
windows only, and no recording without one.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int, Int64

from leakdet.config import LabelsConfig
from leakdet.core.errors import InputError, first_few
from leakdet.detection.labels import LabelView, joined, label_view
from leakdet.storage.hdf5 import open_h5
from leakdet.storage.mel_array import MelArray
from leakdet.storage.store import StoreSplit, offsets_of


class PickedMel(MelArray):
    """Some windows of a `MelArray`, in any order, under the same interface."""

    def __init__(self, base: MelArray, windows: Int[np.ndarray, " W"]) -> None:
        super().__init__(base.parts)
        self.windows = windows  # counted over all windows of `base`

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self.windows), *super().shape[1:]

    @property
    def mapped(self) -> np.ndarray | None:
        """Picked windows do not lie one after another in a file."""
        return None

    def read(self, start: int, stop: int, out: np.ndarray | None = None) -> np.ndarray:
        """Picked windows [start, stop) in memory of their own, or in `out`."""
        return super().gather(self.windows[start:stop], out)

    def gather(self, index: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Picked windows `index` [N], any order, duplicates allowed."""
        return super().gather(self.windows[index], out)


@dataclass
class SplitView(StoreSplit):
    """Recordings `picked` [R] of `bases`, counted over all of them, as one split."""

    mel: PickedMel
    bases: list[StoreSplit] = field(default_factory=list)
    picked: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    factor: np.ndarray | None = None  # [R] by which training weights are multiplied; None: 1

    @cached_property
    def _base_offsets(self) -> Int64[np.ndarray, " offsets"]:
        return _offsets(self.bases)

    @property
    def stored_windows(self) -> np.ndarray:
        return np.asarray(np.diff(self._base_offsets)[self.picked])

    @property
    def window_numbers(self) -> np.ndarray:
        first = np.repeat(self._base_offsets[self.picked], self.windows_per_recording)
        return np.asarray(self.mel.windows - first)

    def read_stored(self, row: int) -> np.ndarray:
        first = int(self.picked[row])
        start, stop = self._base_offsets[first : first + 2].tolist()
        return MelArray(self.mel.parts).read(start, stop)

    @property
    def live(self) -> None:
        """Nothing to leave out: all windows of a view are live, as far as its store knows."""

    def take(self, recordings: Int[np.ndarray, " N"], name: str) -> "SplitView":
        """Recordings `recordings` of this view, in that order, as a view called `name`.

        `without_sound` stays: what was left out of this view is left out of that one too.
        """
        picked, label_id = self.picked[recordings], self.label_id[recordings]
        factor = None if self.factor is None else self.factor[recordings]
        return replace(_view(name, self.bases, picked, label_id, self), factor=factor)

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
        values = np.concatenate([base.numbers(dataset, default) for base in self.bases])
        factor = 1.0 if self.factor is None or dataset != "weight" else self.factor
        return np.asarray(values[self.picked] * factor)


def pooled(splits: Sequence[StoreSplit]) -> SplitView:
    """All recordings of all `splits`, one split after the other."""
    first = splits[0]
    for split in splits[1:]:
        for what in ("label_names", "leak_labels", "signal"):
            if _plain(getattr(split, what)) != _plain(getattr(first, what)):
                raise InputError(
                    f"{split.files[0]}: its {what} differs from that of {first.files[0].name}; to "
                    "be pooled, the splits of a store must agree. Build them together."
                )
    bases, picked = _bases_of(splits)
    label_id = np.concatenate([split.label_id for split in splits])
    has_sound = np.concatenate([_has_sound(base) for base in bases])[picked]
    without = [name for split in splits for name in split.without_sound]
    if not has_sound.all():
        names = np.concatenate([split.recording_ids for split in splits])
        without += names[~has_sound].tolist()
    if not has_sound.any():
        raise InputError(
            f"{first.files[0]}: no recording of it holds sound: all are silent, stuck or broken "
            "off throughout. See that the right files were built into the store."
        )
    view = _view("all", bases, picked[has_sound], label_id[has_sound], first)
    view.without_sound = without
    view.label_view = joined([split.label_view for split in splits if split.label_view])
    return view


def with_sound(split: StoreSplit) -> StoreSplit:
    """The split without dead windows, and without recordings that have no others."""
    if split.live is None or split.live.all():
        return split
    view = pooled([split])
    return replace(view, name=split.name)


def no_sound_sentence(split: StoreSplit) -> str:
    """A sentence on recordings left out because they hold no sound; "" where none was."""
    count = len(split.without_sound)
    if not count:
        return ""
    what = "recording holds" if count == 1 else "recordings hold"
    return (
        f"{count} {what} no sound ({split.name}) and can be neither trained on nor judged: "
        f"{first_few(split.without_sound)}"
    )


def _bases_of(splits: Sequence[StoreSplit]) -> tuple[list[StoreSplit], Int[np.ndarray, " R"]]:
    """The splits, in place of a view those that it picks from, and the recordings picked."""
    bases: list[StoreSplit] = []
    picked = []
    for split in splits:
        first = sum(base.recordings for base in bases)
        if isinstance(split, SplitView):
            bases += split.bases
            picked.append(first + split.picked)
        else:
            bases.append(split)
            picked.append(first + np.arange(split.recordings))
    return bases, np.concatenate(picked)


def _has_sound(split: StoreSplit) -> Bool[np.ndarray, " R"]:
    """Mask of the recordings that have a live window."""
    if split.live is None or not split.recordings:
        return np.ones(split.recordings, bool)
    return np.asarray(np.logical_or.reduceat(split.live, split.recording_offsets[:-1]))


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


def _offsets(bases: Sequence[StoreSplit]) -> Int64[np.ndarray, " offsets"]:
    """Bounds of the recordings of all `bases` among all of their windows."""
    return offsets_of(np.concatenate([base.windows_per_recording for base in bases]))


def _view(
    name: str,
    bases: list[StoreSplit],
    picked: np.ndarray,
    label_id: np.ndarray,
    vocabulary: StoreSplit,
) -> SplitView:
    """The live windows of these recordings, each of which has one, labelled as in `vocabulary`."""
    offsets = _offsets(bases)
    counts = np.diff(offsets)[picked]
    row = np.repeat(np.arange(len(picked)), counts)
    # from the start of each recording on
    windows = np.arange(len(row)) + (offsets[picked] - offsets_of(counts)[:-1])[row]
    if any(base.live is not None for base in bases):
        masks = [np.ones(base.windows, bool) if base.live is None else base.live for base in bases]
        live = np.concatenate(masks)[windows]
        windows, counts = windows[live], np.bincount(row[live], minlength=len(picked))
    return SplitView(
        name=name,
        files=[file for base in bases for file in base.files],
        mel=PickedMel(MelArray([part for base in bases for part in base.mel.parts]), windows),
        recording_offsets=offsets_of(counts),
        label_id=label_id,
        label_names=vocabulary.label_names,
        leak_labels=vocabulary.leak_labels,
        signal=vocabulary.signal,
        signal_unknown=vocabulary.signal_unknown,
        without_sound=vocabulary.without_sound,
        label_view=vocabulary.label_view,
        bases=bases,
        picked=picked,
    )


def keeping(view: SplitView, kept: Bool[np.ndarray, " W"]) -> SplitView:
    """The view with these of its windows alone; every recording must keep one.

    Windows that are not kept count as those without sound: views of this one do not have them
    either, nor do samples, in memory or streamed.
    """
    counts = np.add.reduceat(kept.astype(np.int64), view.recording_offsets[:-1])
    if (counts == 0).any():
        raise ValueError(f"recording {view.recording_ids[counts == 0][0]} keeps no window")
    masks = [np.ones(base.windows, bool) if base.live is None else base.live for base in view.bases]
    alive = np.concatenate(masks)
    alive[view.mel.windows[~kept]] = False
    bounds = np.cumsum([base.windows for base in view.bases])[:-1]
    bases = [
        _with_live(base, mask)
        for base, mask in zip(view.bases, np.split(alive, bounds), strict=True)
    ]
    return replace(view, bases=bases).take(np.arange(view.recordings), view.name)


def _with_live(base: StoreSplit, live: Bool[np.ndarray, " W"]) -> StoreSplit:
    """A copy of a split as opened, of which only these windows are taken."""
    copied = copy(base)
    copied.__dict__["live"] = live
    return copied


def labelled(split: StoreSplit, labels: LabelsConfig | None = None) -> StoreSplit:
    """The split under label settings (None: the defaults), without recordings to be left out."""
    where = str(split.files[0].parent)
    view = label_view(split.label_names, labels or LabelsConfig(), where, split.leak_labels)
    view = view.counting(np.array(split.label_names)[split.label_id].tolist())
    new_id = np.array(view.ids(split.label_names), np.int64)[split.label_id]
    relabelled = replace(
        split,
        label_id=new_id,
        label_names=list(view.names),
        leak_labels=list(view.leaks),
        label_view=view,
    )
    if not view.left_out:
        return relabelled
    return pooled([relabelled]).take(np.flatnonzero(new_id >= 0), split.name)


def view_of(split: StoreSplit) -> LabelView:
    """The label view that the split was opened under; of one that was not, the default view."""
    return split.label_view or label_view(
        split.label_names, LabelsConfig(), str(split.files[0].parent), split.leak_labels
    )


def view_of_all(splits: Sequence[StoreSplit]) -> LabelView:
    """The view of several splits of a store, with what is left out of all of them."""
    view = joined([view_of(split) for split in splits])
    assert view is not None
    return view
