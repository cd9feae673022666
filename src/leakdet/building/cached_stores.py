"""Stores that are made once and cached: the demo's, and several stores as one."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import leakdet
from leakdet.building.builder import build_store
from leakdet.building.report import StoredBuild, link_files, report_of, write_build_files
from leakdet.config import BuildConfig, DataConfig, DemoConfig, SignalConfig, SplitConfig
from leakdet.core.errors import InputError, first_few
from leakdet.core.files import (
    building_alone,
    default_cache,
    publish,
    require_writable,
    staged_folder,
)
from leakdet.detection.labels import label_key
from leakdet.storage.ailh import is_ailh
from leakdet.storage.folder import require_store
from leakdet.storage.opening import open_split, split_names
from leakdet.storage.overlap import check_no_overlap, split_columns
from leakdet.storage.store import StoreIdentity


def joined_stores(stores: Sequence[Path], cache: Path) -> Path:
    """A folder in `cache` that opens as a store of all recordings of `stores`, split by split.

    It holds links, so that the stores must stay where they are; one that is built anew or added to
    gives another folder.
    """
    for store in stores:
        require_store(store)
        if is_ailh(store):
            raise InputError(
                f"{store}: an AILH store does not name its recordings and cannot be joined. "
                f"Convert it: leakdet build {store} {store}-converted"
            )
    places = [store.resolve() for store in stores]
    twice = [str(store) for number, store in enumerate(places) if store in places[:number]]
    if twice:
        raise InputError(f"data.stores: {twice[0]} is named twice; name every store once.")
    folder = cache / f"joined-{_key(places)}"
    if (folder / "build.json").exists():
        return folder
    parts = [StoredBuild.read(store) for store in places]
    _check_alike(parts)
    report = report_of(folder, parts)
    _check_sounds(parts)
    report.remarks = [f"Joined from {', '.join(map(str, places))}."]
    with staged_folder(folder) as staged:
        link_files(places, staged, symbolic=True)
        splits = [open_split(staged, name) for name in split_names(staged)]
        _check_overlap(splits, parts)
        write_build_files(staged, _settings(parts, split_columns(splits)), report)
        if not (folder / "build.json").exists():  # another process may have been faster
            publish(staged, folder)
    return folder


def _key(stores: Sequence[Path]) -> str:
    """Twelve digits that change with the files of the stores."""
    facts = [(str(store), sorted(StoreIdentity.of(store).files.items())) for store in stores]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]


def _check_alike(parts: Sequence[StoredBuild]) -> None:
    first = parts[0]
    for part in parts[1:]:
        differing = first.signal.differences(part.signal)
        if differing:
            raise InputError(
                f"{part.folder}: it was built with another signal than {first.folder} (here / "
                f"there): {'; '.join(part.signal.differences(first.signal))}. Build it again: "
                f"leakdet build RECORDINGS STORE like={first.folder}"
            )
        for what in ("label_names", "leak_labels"):
            mine, others = (sorted(map(label_key, p.build[what])) for p in (part, first))
            if mine != others or part.build[what] != first.build[what]:
                raise InputError(
                    f"{part.folder}: its {what.replace('_', ' ')} are "
                    f"{', '.join(part.build[what])}, those of {first.folder} "
                    f"{', '.join(first.build[what])}. Build it again with the same labels "
                    "(labels.rename=, labels.leak=)."
                )


def _check_sounds(parts: Sequence[StoredBuild]) -> None:
    """Refuse a sound in two stores, under whatever name; within each, the build left copies out."""
    seen: dict[str, Path] = {}
    for part in parts:
        shared = [row for row in part.rows if row["content_sha256"] in seen]
        if shared:
            names = first_few([row["recording_id"] for row in shared], 3)
            raise InputError(
                f"data.stores: {len(shared)} recordings of {part.folder} are the same sound as one "
                f"of {seen[shared[0]['content_sha256']]}: {names}. They would count twice or judge "
                "what they trained: leave one of the stores out."
            )
        seen |= dict.fromkeys((row["content_sha256"] for row in part.rows), part.folder)


def _check_overlap(splits: Sequence[Any], parts: Sequence[StoredBuild]) -> None:
    try:
        check_no_overlap(splits)
    except InputError as error:
        names = ", ".join(str(part.folder) for part in parts)
        raise InputError(
            f"data.stores: {names} cannot be trained on together. {str(error).split(': ', 1)[-1]} "
            "Recordings of two stores are told apart by their names, as in recordings.csv."
        ) from error


def _settings(parts: Sequence[StoredBuild], group_by: list[str]) -> dict[str, Any]:
    """The settings of the first store, its source only where all have the same."""
    settings = dict(parts[0].build["settings"])
    sources = {part.build["settings"].get("source") for part in parts}
    settings["source"] = sources.pop() if len(sources) == 1 else None
    settings["split"] = {**settings.get("split", {}), "group_by": group_by}
    return settings


RATIOS = [0.6, 0.2, 0.2]  # of the sites: enough in val and test for a meaningful score


def demo_store(demo: DemoConfig, signal: SignalConfig, cache: Path | None = None) -> Path:
    """The store of these settings, built if it is not cached; its folder `audio` has the sound."""
    settings = json.dumps(
        [leakdet.__version__, asdict(demo), asdict(signal), RATIOS], sort_keys=True
    )
    name = f"demo-{hashlib.sha256(settings.encode()).hexdigest()[:12]}"
    folder = cache or default_cache()
    store = folder / name
    if not (store / "build.json").exists():
        require_writable(folder)
        split = SplitConfig(ratios=RATIOS, group_by=["site"])
        config = BuildConfig(source="demo", out=str(store), signal=signal, split=split, demo=demo)
        with building_alone(store):
            if not (store / "build.json").exists():  # another process may have been faster
                build_store(config)
    return store


def store_or_demo(data: DataConfig, demo: DemoConfig, signal: SignalConfig) -> Path:
    """The store that `data.store` names, that of all `data.stores`, or the demo's."""
    if data.store is not None:
        return Path(data.store)
    cache = Path(data.cache) if data.cache else None
    if data.stores:
        cache = cache or default_cache()
        require_writable(cache)
        return joined_stores([Path(store) for store in data.stores], cache)
    return demo_store(demo, signal, cache)
