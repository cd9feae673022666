"""The demo store, built once and cached under the hash of its settings."""

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path

import leakdet
from leakdet.building.builder import build_store
from leakdet.building.joined_stores import joined_stores
from leakdet.config import BuildConfig, DataConfig, DemoConfig, SignalConfig, SplitConfig
from leakdet.errors import InputError

REMEDY = "Name a folder for it: data.cache=FOLDER."
RATIOS = [0.6, 0.2, 0.2]  # of the sites: enough in val and test for a meaningful score


def demo_store(demo: DemoConfig, signal: SignalConfig, cache: Path | None = None) -> Path:
    """The store of these settings, built if it is not cached; its folder `audio` has the sound.

    Raises:
        InputError: no folder is there in which it can be kept.
    """
    settings = json.dumps(
        [leakdet.__version__, asdict(demo), asdict(signal), RATIOS], sort_keys=True
    )
    name = f"demo-{hashlib.sha256(settings.encode()).hexdigest()[:12]}"
    folder = cache or default_cache()
    store = folder / name
    if not (store / "build.json").exists():
        _require_writable(folder)
        split = SplitConfig(ratios=RATIOS, group_by=["site"])
        build_store(
            BuildConfig(source="demo", out=str(store), signal=signal, split=split, demo=demo)
        )
    return store


def store_or_demo(data: DataConfig, demo: DemoConfig, signal: SignalConfig) -> Path:
    """The store that `data.store` names, that of all `data.stores`, or the demo's."""
    if data.store is not None:
        return Path(data.store)
    cache = Path(data.cache) if data.cache else None
    if data.stores:
        cache = cache or default_cache()
        _require_writable(cache)
        return joined_stores([Path(store) for store in data.stores], cache)
    return demo_store(demo, signal, cache)


def default_cache() -> Path:
    """`$XDG_CACHE_HOME/leakdet`, usually `~/.cache/leakdet`.

    Raises:
        InputError: this user has no home folder.
    """
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "leakdet"
    except RuntimeError as error:
        raise InputError(f"this user has no home folder for the demo's store. {REMEDY}") from error


def _require_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK) else "it may not be written"
    except OSError as error:
        reason = str(error.strerror)
    if reason:
        raise InputError(f"{folder}: the demo's store cannot be kept there ({reason}). {REMEDY}")
