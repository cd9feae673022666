"""The new recordings as a split beside those of the old store: extracted, named, and told apart."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Shaped

from leakdet.building.builder import build_store
from leakdet.building.sources import LeftOut
from leakdet.config import BuildConfig, LabelsConfig, SignalConfig, SplitConfig
from leakdet.detection.label_view import LabelView
from leakdet.errors import InputError, SettingsError, counted
from leakdet.learning.confirmed import Confirmed, read_confirmed, require_both_classes
from leakdet.learning.unverified import extract_unverified
from leakdet.learning.vocabulary import Vocabulary
from leakdet.storage.opening import open_split, split_names
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import SplitView, pooled


@dataclass(frozen=True)
class Added:
    """New recordings as one split, the store they lie in, and what could not be used."""

    split: SplitView
    store: Path
    left_out: list[LeftOut] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    unconfirmed: int = 0
    unverified: SplitView | None = None


def add_recordings(
    source: Path,
    out: Path,
    signal: SignalConfig,
    vocabulary: Vocabulary,
    fewest: int,
    with_unverified: bool = False,
) -> Added:
    """Extract the confirmed recordings of `source` into a store `out`; a store is used as it is.

    `with_unverified`: those without a label too, into a file of their own.

    Raises:
        InputError: the source or a label cannot be used.
        SettingsError: fewer than `fewest` recordings of a class, listed or readable.
    """
    if source.is_dir() and any(source.glob("*.[hH]5")):
        splits = [open_split(source, name) for name in split_names(source)]
        split = renamed_split(pooled(splits), vocabulary, str(source))
        require_both_classes(_labels(split), vocabulary, fewest, str(source))
        return Added(split, source)
    confirmed = read_confirmed(source, vocabulary, signal.channels == "each", with_unverified)
    listed = [recording.label for recording in confirmed.source.recordings]
    require_both_classes(listed, vocabulary, fewest, _where(source, confirmed))
    config = BuildConfig(
        source=str(source),
        out=str(out),
        overwrite=True,  # of a run that was stopped
        signal=signal,
        split=SplitConfig(ratios=[1.0, 0.0, 0.0]),
        labels=LabelsConfig(leak=sorted(set(listed) & set(vocabulary.leaks))),
    )
    report = build_store(config, confirmed.source)
    split = renamed_split(pooled([open_split(out, "train")]), vocabulary, str(out))
    require_both_classes(_labels(split), vocabulary, fewest, f"{source}, of what can be read")
    unverified, left_out = extract_unverified(
        confirmed.unverified, out, signal, vocabulary, contents(split).tolist()
    )
    left_out = report.left_out + left_out
    return Added(split, out, left_out, report.remarks, confirmed.unconfirmed, unverified)


def _where(source: Path, confirmed: Confirmed) -> str:
    rows, unusable = confirmed.unconfirmed, confirmed.source.left_out
    remarks = [f"{counted(rows, 'row')} without a label"] if rows else []
    if unusable:
        first = f"{unusable[0].path}: {unusable[0].reason}"
        remarks.append(f"{len(unusable)} that cannot be used, such as {first}")
    return f"{source} ({'; '.join(remarks)})" if remarks else str(source)


def _labels(split: StoreSplit) -> list[str]:
    return [split.label_names[label] for label in split.label_id]


def renamed_split(split: SplitView, vocabulary: Vocabulary, where: str) -> SplitView:
    """The split under a store's vocabulary, without the recordings that its training leaves out.

    Raises:
        InputError: a label means nothing in that vocabulary.
    """
    names = [vocabulary.name_of(label, where) for label in split.label_names]
    view = LabelView(
        vocabulary.names, vocabulary.leaks, dict(zip(split.label_names, names, strict=True))
    )
    ids = np.array(view.ids(split.label_names), np.int64)[split.label_id]
    renamed = replace(
        split,
        label_id=ids,
        label_names=list(view.names),
        leak_labels=list(view.leaks),
        label_view=view,
    )
    kept = np.flatnonzero(ids >= 0)
    if not len(kept):
        raise InputError(f"{where}: no recording has a label that training uses.")
    return renamed.take(kept, split.name)


def contents(split: StoreSplit) -> Shaped[np.ndarray, " R"]:
    """SHA-256 of the sound of each recording; blank where the store keeps none."""
    if not split.has("content_sha256"):
        return np.full(split.recordings, "")
    return split.texts("content_sha256").astype(str)


def known_contents(
    added: StoreSplit, splits: Sequence[StoreSplit]
) -> tuple[Bool[np.ndarray, " R"], Bool[np.ndarray, " R"]]:
    """Masks of new recordings that lie in the store already: alike, and with another meaning."""
    meaning: dict[str, bool] = {}
    for split in splits:
        meaning |= zip(contents(split).tolist(), split.is_leak.tolist(), strict=True)
    meaning.pop("", None)
    found = contents(added).tolist()
    there = np.array([content in meaning for content in found], bool)
    other = np.array([meaning.get(content) for content in found], object) != added.is_leak
    return there & ~other, there & other


def without(split: StoreSplit, unwanted: Sequence[str]) -> SplitView:
    """The split without the recordings of these contents."""
    keep = ~np.isin(contents(split), list(unwanted)) if len(unwanted) else np.True_
    rows = np.flatnonzero(np.broadcast_to(keep, split.recordings))
    if not len(rows):
        raise SettingsError(
            f"{split.files[0].parent}: nothing of {split.name} is left, since every recording in "
            "it has another label among the new ones. Build the store again with the new labels."
        )
    return pooled([split]).take(rows, split.name)
