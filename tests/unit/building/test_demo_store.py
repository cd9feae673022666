from dataclasses import replace
from pathlib import Path

import pytest

from leakdet.building import demo_store as module
from leakdet.building.demo_store import demo_store, store_or_demo
from leakdet.config import BuildConfig, DataConfig, DemoConfig, SignalConfig
from leakdet.errors import InputError

DEMO, SIGNAL = DemoConfig(), SignalConfig()


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[BuildConfig]:
    """The settings of every store that is built, each of which gets a build.json and no more."""
    configs: list[BuildConfig] = []

    def build_store(config: BuildConfig) -> None:
        configs.append(config)
        Path(config.out).mkdir(parents=True)
        (Path(config.out) / "build.json").touch()

    monkeypatch.setattr(module, "build_store", build_store)
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
