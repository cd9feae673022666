"""The new recordings of `learn`: their labels in the model's words, their times, their store.

Those without a label lie in a file of their own, which no one who opens the store later gets.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Shaped

from leakdet.acoustics.mel import LogMel
from leakdet.building.builder import build_store
from leakdet.building.extraction import Extractor
from leakdet.building.listing import with_unusable
from leakdet.building.scan import scan_headers
from leakdet.building.sources import (
    NO_LABEL,
    LeftOut,
    Source,
    SourceRecording,
    from_folders,
    from_manifest,
)
from leakdet.config import BuildConfig, LabelsConfig, SignalConfig, SplitConfig
from leakdet.core.errors import InputError, SettingsError, first_few
from leakdet.core.parallel import in_order
from leakdet.core.progress import ProgressCounter
from leakdet.detection.labels import LabelMap, LabelView, label_key, same_label
from leakdet.storage.opening import open_split, split_names
from leakdet.storage.store import StoreSplit, open_leakdet_split
from leakdet.storage.views import SplitView, pooled
from leakdet.storage.writer import SplitWriter
from leakdet.tables.values import ALLOWED, time_of

# as a crew writes it after a dig, in place of the store's own label without a leak
NO_LEAK_WORDS = ("no_leak", "dry_hole")
LEAK_WORD = "leak"


@dataclass(frozen=True)
class Vocabulary:
    """The labels `names` of a store, those of them that mean a leak, and those left out."""

    names: tuple[str, ...]
    leaks: tuple[str, ...]
    ignored: tuple[str, ...] = ()

    @classmethod
    def of_view(cls, view: LabelView) -> "Vocabulary":
        """The vocabulary of an opened store."""
        ignored = [label for label, name in view.name_of_label.items() if name is None]
        return cls(view.names, view.leaks, tuple(ignored))

    @classmethod
    def of_model(cls, labels: LabelMap) -> "Vocabulary":
        """The vocabulary that trained a model; leak and no_leak where the file does not say."""
        known = [name for name in dict.fromkeys(labels.name_of_label.values()) if name is not None]
        leaks = tuple(name for name in known if name in labels.leak_labels)
        if not 0 < len(leaks) < len(known):
            return cls((LEAK_WORD, NO_LEAK_WORDS[0]), (LEAK_WORD,))
        ignored = [label for label, name in labels.name_of_label.items() if name is None]
        return cls(tuple(known), leaks, tuple(ignored))

    @property
    def others(self) -> tuple[str, ...]:
        """The labels that mean no leak."""
        return tuple(name for name in self.names if name not in self.leaks)

    def name_of(self, label: str, where: str) -> str | None:
        """The store's label for a confirmed one; None where training leaves it out."""
        for name in self.names:
            if same_label(name, label):
                return name
        if any(same_label(name, label) for name in self.ignored):
            return None
        word = re.sub(r"[\s_-]+", "_", label_key(label))
        if word == LEAK_WORD:
            return self._only(self.leaks, label, where)
        if word in NO_LEAK_WORDS:
            same = [name for name in self.others if label_key(name) in NO_LEAK_WORDS]
            return same[0] if same else self._only(self.others, label, where)
        allowed = dict.fromkeys([LEAK_WORD, *NO_LEAK_WORDS, *self.names])
        raise InputError(
            f"{where}: the label {label!r} is none of {', '.join(allowed)}. Correct it, or leave "
            "it empty where nothing was confirmed."
        )

    def _only(self, names: tuple[str, ...], label: str, where: str) -> str:
        if len(names) == 1:
            return names[0]
        raise InputError(
            f"{where}: the label {label!r} may be any of {', '.join(names)}. Write which."
        )


TIMES = ("recorded_at", "timestamp", "time", "date")
Groups = Mapping[str, Shaped[np.ndarray, " R"]]


def recorded_times(groups: Groups, recordings: int) -> Shaped[np.ndarray, " R"]:
    """The time of each recording as datetime64; NaT where none is told or understood."""
    _, texts = _column(groups)
    return np.array([time_of(text) for text in texts or [""] * recordings], "datetime64[s]")


def time_notes(groups: Groups) -> list[str]:
    """A remark on times that are not understood."""
    name, texts = _column(groups)
    unread = [text for text in dict.fromkeys(texts) if text and np.isnat(time_of(text))]
    if not unread:
        return []
    return [
        f"{name} {first_few(unread)} is not understood and counts as unknown; write times as "
        f"{ALLOWED}"
    ]


def _column(groups: Groups) -> tuple[str, list[str]]:
    """The first column that tells a time, or else the first that is there, with its texts."""
    columns = [(name, groups[name].astype(str).tolist()) for name in TIMES if name in groups]
    for name, texts in columns:
        if not all(np.isnat(time_of(text)) for text in texts):
            return name, texts
    return columns[0] if columns else ("", [])


@dataclass(frozen=True)
class Confirmed:
    """The recordings with a label, in the store's words, and those without one.

    `unconfirmed` counts the latter; `unverified` lists them where they are wanted.
    """

    source: Source
    unconfirmed: int = 0
    unverified: list[SourceRecording] = field(default_factory=list)


def read_confirmed(
    path: Path, vocabulary: Vocabulary, by_channel: bool = False, with_unverified: bool = False
) -> Confirmed:
    """List the confirmed recordings of a table or a folder by label, without opening them.

    Rows without a label are counted, and listed if asked for; rows of predict are welcome.
    """
    if path.is_dir():
        listed = from_folders(path)
    else:
        listed = from_manifest(path, by_channel, NO_LABEL if with_unverified else "")
    left_out = [row for row in listed.left_out if row.reason != NO_LABEL]
    confirmed: list[SourceRecording] = []
    unverified: list[SourceRecording] = []
    for recording in listed.recordings:
        if recording.label == NO_LABEL:
            unverified.append(recording)
            continue
        name = vocabulary.name_of(recording.label, f"{path}, {recording.recording_id}")
        if name is None:
            reason = f"recordings labelled {recording.label} are left out of training"
            left_out.append(LeftOut(recording.recording_id, reason))
            continue
        confirmed.append(replace(recording, label=name, split="train"))
    unconfirmed = len(unverified) + sum(row.reason == NO_LABEL for row in listed.left_out)
    return Confirmed(Source(confirmed, left_out, listed.remarks), unconfirmed, unverified)


def require_both_classes(
    labels: Iterable[str], vocabulary: Vocabulary, fewest: int, where: str
) -> None:
    """Refuse to learn from too few recordings of a class, or from one class alone."""
    listed = list(labels)
    leaks = sum(label in vocabulary.leaks for label in listed)
    others = len(listed) - leaks
    if min(leaks, others) >= fewest:
        return
    raise SettingsError(
        f"{where}: {leaks} confirmed with a leak and {others} without; learning needs at least "
        f"{fewest} of each (learn.min_per_class): from fewer, or from one class alone, a model "
        "learns the places and not the leak. Confirm more, quiet places too."
    )


NAME = "unverified"


def extract_unverified(
    recordings: Sequence[SourceRecording],
    store: Path,
    signal: SignalConfig,
    vocabulary: Vocabulary,
    known: Sequence[str],
) -> tuple[SplitView | None, list[LeftOut]]:
    """Write `unverified.h5` into `store`; None where nothing could be read.

    Sounds whose contents are `known`, the confirmed ones, are left out. All have the label of no
    leak until a model predicts one.
    """
    if not recordings:
        return None, []
    config = BuildConfig(source=NAME, out=str(store), signal=signal)
    scan = scan_headers(Source(list(recordings), []), config)
    extract = Extractor(LogMel(signal), "none", store, store)
    left_out, contents = list(scan.left_out), set(known)
    with ExitStack() as stack:
        writer = SplitWriter(store, NAME, signal)
        stack.callback(writer.discard)
        progress = stack.enter_context(ProgressCounter(NAME, len(scan.readable), "recordings"))
        for recording, extracted in in_order(extract, scan.readable, 0):
            progress.step()
            if isinstance(extracted, LeftOut):
                left_out.append(extracted)
                continue
            with closing(extracted):
                if extracted.row.content_sha256 in contents:
                    reason = "the same sound as another new recording"
                    left_out.append(LeftOut(recording.recording_id, reason))
                    continue
                contents.add(extracted.row.content_sha256)
                extracted.row.label = vocabulary.others[0]
                writer.add(extracted.row, extracted.mel, extracted.sound)
        if not writer.rows:
            return None, left_out
        path = store / f"{NAME}.h5"
        writer.write(path, list(vocabulary.names), list(vocabulary.leaks))
    return pooled([open_leakdet_split(store, "train", [path])]), left_out


@dataclass(frozen=True)
class NewRecordings:
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
) -> NewRecordings:
    """Extract the confirmed recordings of `source` into a store `out`; a store is used as it is.

    `with_unverified`: those without a label too, into a file of their own.
    """
    if source.is_dir() and any(source.glob("*.[hH]5")):
        splits = [open_split(source, name) for name in split_names(source)]
        split = renamed_split(pooled(splits), vocabulary, str(source))
        require_both_classes(_labels(split), vocabulary, fewest, str(source))
        return NewRecordings(split, source)
    confirmed = read_confirmed(source, vocabulary, signal.channels == "each", with_unverified)
    listed = [recording.label for recording in confirmed.source.recordings]
    require_both_classes(
        listed,
        vocabulary,
        fewest,
        with_unusable(source, confirmed.unconfirmed, confirmed.source.left_out),
    )
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
    return NewRecordings(split, out, left_out, report.remarks, confirmed.unconfirmed, unverified)


def _labels(split: StoreSplit) -> list[str]:
    return [split.label_names[label] for label in split.label_id]


def renamed_split(split: SplitView, vocabulary: Vocabulary, where: str) -> SplitView:
    """The split under a store's vocabulary, without the recordings that its training leaves out."""
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
    used = np.flatnonzero(ids >= 0)
    if not len(used):
        raise InputError(f"{where}: no recording has a label that training uses.")
    return renamed.take(used, split.name)


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
    new = contents(added).tolist()
    stored = np.array([content in meaning for content in new], bool)
    other = np.array([meaning.get(content) for content in new], object) != added.is_leak
    return stored & ~other, stored & other


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
