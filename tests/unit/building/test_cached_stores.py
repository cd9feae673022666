import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from leakdet.building import cached_stores
from leakdet.building.builder import build_store
from leakdet.building.cached_stores import demo_store, joined_stores, store_or_demo
from leakdet.config import (
    BuildConfig,
    DataConfig,
    DemoConfig,
    SignalConfig,
    SplitConfig,
    TrainConfig,
)
from leakdet.core.errors import InputError
from leakdet.evaluation.split_scores import is_synthetic, split_group_by
from leakdet.runs.training import train_in
from leakdet.storage.opening import open_split, split_names
from leakdet.training.datamodule import LeakDataModule

JOINED_SIGNAL = SignalConfig(fmax_hz=8000.0)
SPLITS = ["train"] * 4 + ["val"] * 2 + ["test"] * 2
Store = Callable[..., Path]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """`store("a", range(8), …)`: a store of these sounds of 1 s, the first four in train."""

    def make(name: str, numbers: range, labels: tuple[str, str] = ("leak", "quiet"),
             signal: SignalConfig = JOINED_SIGNAL, site: str = "s", **changes: str) -> Path:  # fmt: skip
        lines = ["path,label,split,site"]
        for split, number in zip(SPLITS, numbers, strict=False):
            path = tmp_path / changes.get("sounds", "in") / f"{number}.wav"
            path.parent.mkdir(exist_ok=True)
            noise = np.random.default_rng(number).standard_normal(16_000)
            soundfile.write(path, 0.1 * noise, 16_000)
            lines.append(f"{path},{labels[number % 2]},{split},{site}{number}")
        source = tmp_path / f"{name}.csv"
        source.write_text("\n".join(lines))
        split_by = SplitConfig(group_by=["site"] if site else [])
        out = tmp_path / name
        build_store(BuildConfig(str(source), str(out), signal, split_by, verify="off"))
        return out

    return make


def test_stores_joined_train_as_the_one_built_whole(store: Store, tmp_path: Path) -> None:
    a, b = store("a", range(8)), store("b", range(20, 28))
    joined = joined_stores([a, b], tmp_path / "cache")
    assert split_names(joined) == ["train", "val", "test"]
    for name in split_names(joined):
        ids = [open_split(place, name).recording_ids.tolist() for place in (a, b, joined)]
        assert ids[0] + ids[1] == ids[2]
    assert split_group_by(joined) == ["site"]
    assert is_synthetic(joined) is None  # from two sources
    data = LeakDataModule(TrainConfig(), joined)
    data.setup()
    data.read_windows(test=True)
    assert len(data.splits.train.label_id) == 8
    assert sorted(path.name for path in joined.glob("*.h5"))[0] == "test-00000-of-00002.h5"
    assert all(path.is_symlink() for path in joined.glob("*.h5"))


def test_it_is_made_once_and_anew_when_a_store_changes(store: Store, tmp_path: Path) -> None:
    a, b = store("a", range(8)), store("b", range(20, 28))
    joined = joined_stores([a, b], tmp_path / "cache")
    before = (joined / "build.json").stat().st_mtime_ns
    assert joined_stores([a, b], tmp_path / "cache") == joined
    assert (joined / "build.json").stat().st_mtime_ns == before
    (b / "val.h5").touch()
    assert joined_stores([a, b], tmp_path / "cache") != joined


def test_shared_sounds_names_and_groups_are_refused(store: Store, tmp_path: Path) -> None:
    cache, a = tmp_path / "cache", store("a", range(8))
    with pytest.raises(InputError, match=r"1 recordings .*same sound .*leave one"):
        joined_stores([a, store("z", range(7, 15), sounds="other")], cache)
    with pytest.raises(InputError, match=r"8 recordings of .*/b .*same sound .*/a"):
        joined_stores([a, store("b", range(8))], cache)  # under the same names
    c = store("c", range(20, 28), site="")  # with sounds of its own, and no groups
    assert joined_stores([a, c], cache).exists()
    torn = store("d", range(30, 38), site="t")
    text = (tmp_path / "d.csv").read_text().replace("t30", "s6")  # which is in test of a
    (tmp_path / "e.csv").write_text(text)
    config = BuildConfig(str(tmp_path / "e.csv"), str(tmp_path / "e"), JOINED_SIGNAL,
                         SplitConfig(group_by=["site"]), verify="off")  # fmt: skip
    build_store(config)
    with pytest.raises(InputError, match=r"together.*group \(site\).*s6"):
        joined_stores([a, tmp_path / "e"], cache)
    assert joined_stores([a, torn], cache).exists()


def test_other_signals_and_labels_are_refused(store: Store, tmp_path: Path, stores) -> None:
    cache, a = tmp_path / "cache", store("a", range(8))
    other = store("b", range(20, 28), signal=SignalConfig(fmax_hz=8000.0, n_mels=32))
    with pytest.raises(InputError, match=r"another signal .*n_mels: 32 / 64.*like=.*/a"):
        joined_stores([a, other], cache)
    with pytest.raises(InputError, match=r"label names are hum, leak, those of .* leak, quiet"):
        joined_stores([a, store("c", range(30, 38), labels=("leak", "hum"))], cache)
    with pytest.raises(InputError, match="named twice"):
        joined_stores([a, tmp_path / "in" / ".." / "a"], cache)
    with pytest.raises(InputError, match="no such store"):
        joined_stores([a, tmp_path / "nowhere"], cache)
    (tmp_path / "ailh").mkdir()
    stores.ailh_splits(tmp_path / "ailh", {})
    with pytest.raises(InputError, match=r"AILH store .*Convert"):
        joined_stores([a, tmp_path / "ailh"], cache)
    assert not cache.exists() or list(cache.iterdir()) == []


def test_a_training_takes_several_stores(store: Store, tmp_path: Path, compose) -> None:
    names = [str(store("a", range(8))), str(store("b", range(20, 28)))]
    settings = ["network=linear", "trainer.max_epochs=1", "logger=none", "stop.name=fixed"]
    settings += [f"data.stores=[{','.join(names)}]", f"data.cache={tmp_path / 'cache'}"]
    metrics = train_in(tmp_path / "run", compose("train", *settings))
    assert metrics["recordings"] == {"train": 8, "val": 4}
    assert metrics["test"]["recording"]["n"] == 4
    assert metrics["settings"]["data"]["stores"] == names
    build = json.loads((Path(metrics["store"]) / "build.json").read_text())
    assert build["remarks"] == [f"Joined from {names[0]}, {names[1]}."]


DEMO, SIGNAL = DemoConfig(), SignalConfig()


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[BuildConfig]:
    """The settings of every store that is built, each of which gets a build.json and no more."""
    configs: list[BuildConfig] = []

    def build_store(config: BuildConfig) -> None:
        configs.append(config)
        Path(config.out).mkdir(parents=True)
        (Path(config.out) / "build.json").touch()

    monkeypatch.setattr(cached_stores, "build_store", build_store)
    return configs


def test_the_demo_is_built_once_for_equal_settings(tmp_path: Path, built: list[BuildConfig]):
    first = demo_store(DEMO, SIGNAL, tmp_path)
    assert demo_store(DemoConfig(), SignalConfig(), tmp_path) == first
    assert len(built) == 1
    assert (built[0].source, built[0].split.group_by) == ("demo", ["site"])
    assert (built[0].demo, built[0].signal) == (DEMO, SIGNAL)


def test_other_settings_have_another_store(tmp_path: Path, built: list[BuildConfig]):
    stores = {
        demo_store(DEMO, SIGNAL, tmp_path),
        demo_store(replace(DEMO, seed=1), SIGNAL, tmp_path),
        demo_store(DEMO, replace(SIGNAL, n_mels=32), tmp_path),
    }
    assert len(stores) == len(built) == 3


def test_a_half_built_store_is_built_again(tmp_path: Path, built: list[BuildConfig]):
    store = demo_store(DEMO, SIGNAL, tmp_path)
    (store / "build.json").unlink()
    store.rmdir()
    assert demo_store(DEMO, SIGNAL, tmp_path) == store
    assert len(built) == 2


def test_a_named_store_needs_no_demo(tmp_path: Path, built: list[BuildConfig]):
    assert store_or_demo(DataConfig(store="s"), DEMO, SIGNAL) == Path("s")
    assert not built
    cached = store_or_demo(DataConfig(cache=str(tmp_path)), DEMO, SIGNAL)
    assert cached.parent == tmp_path


def test_without_a_home_that_can_be_written_the_setting_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, built: list[BuildConfig]
):
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"file/\.cache/leakdet: .*Not a directory.*data\.cache="):
        demo_store(DEMO, SIGNAL)

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(InputError, match=r"no home folder.*data\.cache=FOLDER"):
        demo_store(DEMO, SIGNAL)
    demo_store(DEMO, SIGNAL, tmp_path)
    assert len(built) == 1
