"""Settings composed in Python are those of the command line, and Hydra's state is the caller's."""

from dataclasses import replace
from pathlib import Path

import hydra
import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.singleton import Singleton
from omegaconf import OmegaConf

from leakdet.cli.composition import (
    added,
    as_hydra_reads,
    as_yaml,
    compose,
)
from leakdet.config import BuildConfig, CrossvalConfig, TrainConfig, TuneConfig
from leakdet.errors import SettingsError


def test_each_door_has_its_type() -> None:
    types = {"train": TrainConfig, "tune": TuneConfig, "crossval": CrossvalConfig}
    for door, schema in types.items():
        assert type(compose(door)) is schema
    assert compose("build", ["source=a b, c=d", "out=x"]) == replace(
        compose("build", ["source=y", "out=x"]), source="a b, c=d"
    )
    assert isinstance(compose("build", ["source=y", "out=x"]), BuildConfig)


def test_overrides_are_those_of_the_shell(tmp_path: Path) -> None:
    config = compose("train", ["experiment=smoke", "optimizer.lr=1e-3", "data.store=/a b/c=d"])
    assert (config.optimizer.lr, config.data.store) == (1e-3, "/a b/c=d")
    (tmp_path / "mine.yaml").write_text("# @package _global_\nseed: 7\n")
    assert compose("train", [f"experiment={tmp_path / 'mine.yaml'}"]).seed == 7
    config = compose("crossval", ["crossval.where.pipe=[a,b]"])
    assert config.crossval.where == {"pipe": ["a", "b"]}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["netwrk.dropout=0.2"], "netwrk"),
        (["network.dropout=2"], "network.dropout=2"),
        (["network.dropout=much"], "dropout"),
        (["network=transformer"], "(?s)transformer.*compact"),
        (["seed 1"], "seed 1"),
        (["-m"], "-m"),
        (["seed=1,2"], r"seed=1,2: .* -m seed=1,2. A list is written seed=\[1,2\]$"),
        (["data.cache='a"], r"data.cache='a: cannot be read; is a bracket or quote open\?"),
        (["network={a"], r"network={a: cannot be read; is a bracket or quote open\?"),
    ],
)
def test_a_bad_override_is_a_settings_error(overrides: list[str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        compose("train", overrides)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(SettingsError, match="predict: has no settings; allowed are build, train"):
        compose("predict")
    with pytest.raises(TypeError, match=r"such as \['seed=1'\]"):
        compose("train", "seed=1")
    with pytest.raises(SettingsError, match=r"out and source must be given: out=\.\.\. source="):
        compose("build")


def test_the_callers_hydra_does_not_notice(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text("name: mine\n")
    store = ConfigStore.instance()
    store.store(group="schema", name="train", node={"name": "the caller's"})
    try:
        with hydra.initialize_config_dir(str(tmp_path), version_base="1.2"):
            OmegaConf.register_new_resolver("now", lambda _: "the caller's", replace=True)
            before = dict(Singleton._instances)
            compose("train", ["seed=3"])
            with pytest.raises(SettingsError):
                compose("train", ["sed=3"])
            assert dict(Singleton._instances) == before
            assert ConfigStore.instance() is store
            assert store.load("schema/train.yaml").node == {"name": "the caller's"}
            assert OmegaConf.create({"time": "${now:%H}"}).time == "the caller's"
            assert hydra.compose("app").name == "mine"
    finally:
        OmegaConf.clear_resolver("now")
        del store.repo["schema"]
    compose("train")
    assert not GlobalHydra.instance().is_initialized()


def test_values_survive_yaml() -> None:
    plain = {"a": None, "b": [1, "1", 1e-3, True, "yes"], "c": {"d e": "x: y"}}
    assert OmegaConf.to_container(OmegaConf.create(as_yaml(plain))) == plain


@pytest.mark.parametrize(
    ("typed", "seen"),
    [
        ("data.store=/a, b/c=d [1]~é", "data.store='/a, b/c=d [1]~é'"),
        ("data.store=it's", r"data.store='it\'s'"),
        ("data.store='already'", "data.store='already'"),
        ("data.store=null", "data.store=null"),
        ("data.store=${oc.env:HOME}/x", "data.store=${oc.env:HOME}/x"),
        ("seed=1,2", "seed=1,2"),
        ("-m", "-m"),
    ],
)
def test_paths_need_no_quoting(typed: str, seen: str):
    assert as_hydra_reads("train", [typed]) == [seen]


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("crossval.where={pipe:[1,3]}", "++crossval.where={pipe:[1,3]}"),
        ("crossval.where.pipe=1", "++crossval.where.pipe=1"),
        ("crossval.whereabouts=1", "crossval.whereabouts=1"),
        ("+crossval.where.pipe=1", "+crossval.where.pipe=1"),
        ("--help", "--help"),
    ],
)
def test_keys_invented_by_the_user_need_no_plus_sign(argument: str, expected: str) -> None:
    assert added(argument, ("crossval.where", "crossval.protocols")) == expected


def test_a_flag_that_only_some_trainers_set_is_known() -> None:
    assert compose("train", ["trainer=ddp", "trainer.num_nodes=4"]).trainer["num_nodes"] == 4
    assert compose("train", ["trainer.num_nodes=4"]).trainer["num_nodes"] == 4
