"""The demo store, built once and cached under the hash of its settings."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import leakdet
from leakdet.building.builder import build_store
from leakdet.building.joined_stores import joined_stores
from leakdet.config import BuildConfig, DataConfig, DemoConfig, SignalConfig, SplitConfig
from leakdet.storage.cache_folder import default_cache, require_writable

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
        require_writable(folder)
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
        require_writable(cache)
        return joined_stores([Path(store) for store in data.stores], cache)
    return demo_store(demo, signal, cache)
