"""The card of a store: when and from what it was made, its recordings, groups and signal."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from leakdet.cli.card_lines import (
    changed_of,
    intact_text,
    line,
    moment_text,
    signal_text,
    tree_size,
)
from leakdet.errors import InputError, counted
from leakdet.storage.ailh_store import FILES, is_ailh
from leakdet.storage.disk_space import megabytes
from leakdet.storage.hdf5 import REBUILD
from leakdet.storage.json_file import read_json
from leakdet.storage.opening import open_split, split_names
from leakdet.storage.seal import store_is_sealed
from leakdet.storage.shared_groups import group_values, values_sentence
from leakdet.storage.store import StoreSplit, open_leakdet_split

LEFT_OUT = 3  # recordings left out that are named


def store_lines(store: Path) -> Iterator[str]:
    """The lines of a store's folder, of leakdet or AILH.

    Raises:
        InputError: it has no split, or one of them is damaged.
    """
    splits = [open_split(store, name) for name in split_names(store)]
    if not splits:
        raise InputError(f"{store}: holds HDF5 files, but none of them is a split of a store.")
    files = [path for split in splits for path in split.files]
    yield from line("store", f"{store} ({megabytes(tree_size(files))})")
    made = _build(store)
    yield from _origin(made, store, splits)
    yield from _contents(splits)
    yield from _groups(splits)
    yield from _intact(files)
    yield from line("signal", _signal(splits[0]))
    yield from _remarks(made)


def split_lines(path: Path) -> Iterator[str]:
    """The lines of one HDF5 file of a store.

    Raises:
        InputError: it is none, or damaged.
    """
    ailh = {file: name for name, file in FILES.items()}
    name = ailh.get(path.name) or path.stem.partition("-")[0]
    split = open_split(path.parent, name) if path.name in ailh else _one(path, name)
    yield from line("split", f"{path} ({megabytes(path.stat().st_size)})")
    yield from line("made", changed_of(path))
    yield from _contents([split])
    yield from _intact([path])
    yield from line("signal", _signal(split))
    yield from line("store", f"leakdet info {path.parent} shows the whole store")


def _one(path: Path, name: str) -> StoreSplit:
    return open_leakdet_split(path.parent, name, [path])


def _build(store: Path) -> dict[str, Any]:
    """The content of build.json; empty where there is none."""
    path = store / "build.json"
    return read_json(path, "the report of a build") if path.exists() else {}


def _origin(made: dict[str, Any], store: Path, splits: Sequence[StoreSplit]) -> Iterator[str]:
    if is_ailh(store):
        yield from line(
            "made", f"by the scripts of AILH; files of {changed_of(splits[0].files[0])}"
        )
        return
    when = (
        moment_text(made["created_at"])
        if "created_at" in made
        else f"files of {changed_of(splits[0].files[0])}"
    )
    yield from line("made", f"{when} by {made.get('created_by', 'an unknown version')}")
    settings = made.get("settings", {})
    yield from line("from", str(settings.get("source", "unknown: there is no build.json")))
    split = settings.get("split", {})
    if split:
        kept = " and ".join(split["group_by"])
        how = f"by {kept}, whole groups" if kept else "recording by recording"
        yield from line("splits", f"{how} (split.group_by=[{','.join(split['group_by'])}])")


def _contents(splits: Sequence[StoreSplit]) -> Iterator[str]:
    leaks = ", ".join(splits[0].leak_labels)
    yield from line("leak", leaks or "not said by the store (labels.leak; by default LEAK)")
    for split in splits:
        counts = Counter(np.array(split.label_names)[split.label_id].tolist())
        labels = ", ".join(f"{count} {label}" for label, count in sorted(counts.items()))
        hours = split.numbers("duration_s", np.nan).sum() / 3600
        long = "" if np.isnan(hours) else f", {hours:.2f} h"
        recordings = f"{counted(split.recordings, 'recording')} ({labels})"
        yield from line(split.name, f"{recordings}, {counted(split.windows, 'window')}{long}")


def _groups(splits: Sequence[StoreSplit]) -> Iterator[str]:
    """The number of values of each group column, and the splits that share some."""
    columns = group_values(splits)
    for column, values in columns.items():
        yield from line("group", values_sentence(column, values))
    if not columns:
        yield from line("group", "none: no sites or sensors are named")


def _intact(files: Sequence[Path]) -> Iterator[str]:
    verified = all(store_is_sealed(path, REBUILD) for path in files)
    yield from line("intact", intact_text(verified, "; its mel is compared when it is read"))


def _signal(split: StoreSplit) -> str:
    if split.signal is None:
        return f"unknown: {split.signal_unknown}"
    return f"{signal_text(vars(split.signal))} (hash {split.signal.hash})"


def _remarks(made: dict[str, Any]) -> Iterator[str]:
    if made.get("surrogates"):
        yield from line("with", f"{counted(made['surrogates'], 'surrogate')} of leaks in train")
    for remark in made.get("remarks", []):
        yield from line("note", remark)
    left_out = made.get("left_out", [])
    if left_out:
        yield from line("left out", f"{counted(len(left_out), 'recording')} (build.json lists all)")
        for item in left_out[:LEFT_OUT]:
            yield from line("", f"{item['path']}: {item['reason']}")
