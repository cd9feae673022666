from dataclasses import replace
from pathlib import Path

import hydra
import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.singleton import Singleton
from omegaconf import OmegaConf

from leakdet.cli.compose import (
    added,
    as_hydra_reads,
    as_yaml,
    compose,
    composed,
    store_schemas,
    with_experiment_file,
)
from leakdet.cli.settings import OPTIONS
from leakdet.config import BuildConfig, CrossvalConfig, MeasuredTrainConfig, TuneConfig
from leakdet.core.errors import InputError, LeakdetError, SettingsError


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("augment.interference_db=[1,a]", r"augment\.interference_db\[1\]=a .*number"),
        ("augment.interference_db=[1,null]", r"interference_db\[1\]=null .* needs a value"),
        ("optimizer={lr: x}", r"optimizer\.lr=x .*number"),
        ("optimizer={lrr: 3}", r"optimizer\.lrr: .*setting"),
        ("network={name: null}", r"network\.name=null .* needs a value"),
        ("network.extra=5", r"network\.extra: .*names"),
    ],
)
def test_what_omegaconf_refuses_is_said_in_the_words_of_settings(argument: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        compose("train", [argument])


@pytest.mark.parametrize("prefix", ["", "+"])
def test_a_file_anywhere_becomes_an_experiment(tmp_path: Path, prefix: str) -> None:
    file = tmp_path / "field = 2.yaml"
    file.write_text("# @package _global_\nseed: 7\n")
    first, option, searched = with_experiment_file(["seed=1", f"{prefix}experiment={file}"])
    assert (first, option) == ("seed=1", "experiment=file_field___2")
    folder = Path(searched.removeprefix("hydra.searchpath=[file://").removesuffix("]"))
    assert "seed: 7" in (folder / "experiment" / "file_field___2.yaml").read_text()


def test_a_sweep_may_go_over_several_files(tmp_path: Path) -> None:
    for place, seed in (("a", 7), ("b", 8)):
        (tmp_path / place).mkdir()
        (tmp_path / place / "my.yaml").write_text(f"# @package _global_\nseed: {seed}\n")
    words = ["-m", f"experiment={tmp_path}/a/my.yaml,paper,{tmp_path}/b/my.yaml"]
    flag, options, searched = as_hydra_reads("train", words)
    assert (flag, options) == ("-m", "experiment=file_my,paper,file_my_1")
    seeds = [
        composed("train", [f"experiment={name}", searched]).seed
        for name in options.partition("=")[2].split(",")
    ]
    assert seeds == [7, 0, 8]
    with pytest.raises(InputError, match=r"experiment=none\.yaml: .*no such"):
        as_hydra_reads("train", ["-m", "experiment=none.yaml,paper"])


def test_a_name_stays_a_name_and_a_missing_file_is_told(tmp_path: Path) -> None:
    assert with_experiment_file(["experiment=smoke", "-m"]) == ["experiment=smoke", "-m"]
    with pytest.raises(InputError, match=r"none\.yaml: .*no such"):
        with_experiment_file([f"experiment={tmp_path / 'none.yaml'}"])


@pytest.mark.parametrize("content", [b"a: [", b"- 1\n", b"\xff\xfe: 1", b"7", b"a: ${"])
def test_a_damaged_file_of_settings_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.yaml").write_bytes(content)
    with pytest.raises(LeakdetError, match=r"x\.yaml: .*YAML.* \(.+\)"):
        with_experiment_file([f"experiment={tmp_path / 'x.yaml'}"])


def test_a_heading_that_is_cut_off_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("# @pack\nseed: 1\n")
    with pytest.raises(InputError, match=r"x\.yaml: not .*'# @pack' should be # @package _global_"):
        compose("train", [f"experiment={tmp_path / 'x.yaml'}"])


@pytest.mark.parametrize("start", ["", "\ufeff", "# mine\n", "# mine\n# @package _global_\n"])
def test_a_file_needs_no_heading(tmp_path: Path, start: str) -> None:
    (tmp_path / "x.yaml").write_text(f"{start}optimizer: {{lr: 0.002}}\n", encoding="utf-8")
    assert compose("train", [f"experiment={tmp_path / 'x.yaml'}"]).optimizer.lr == 0.002


@pytest.mark.parametrize(
    "content",
    [
        "hydra: {callbacks: {x: {_target_: os.getcwd}}}",
        "hydra: {job_logging: {handlers: {x: {(): os.getcwd}}}}",
        "logger: {csv: [{_target_: os.getcwd}]}",
        "defaults: [override /hydra/launcher: joblib]",
        "defaults: [{/experiment@hydra.callbacks: file_x}]",
        "# @package hydra\ncallbacks: {x: 1}",
        "# mine\u2028# @package hydra.callbacks\nx: 1",
    ],
)
def test_a_file_that_would_run_code_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.yaml").write_text(content, encoding="utf-8")
    with pytest.raises(LeakdetError, match=r"x\.yaml: .*(run code|should be # @package _global_)"):
        compose("train", [f"experiment={tmp_path / 'x.yaml'}"])


@pytest.mark.parametrize(
    "content",
    [
        "network: {name: 'mine:Net'}",
        "loss: {name: 'mine:Net'}",
        "callbacks: {extra: ['mine:Net']}",
        "init_from: mine\nnetwork: {name: '${init_from}:Net'}",
    ],
)
def test_code_that_a_file_names_is_named_by_the_command_too(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.yaml").write_text(content)
    words = [f"experiment={tmp_path / 'x.yaml'}"]
    with pytest.raises(SettingsError, match=r"mine:Net, which .* add trust_network=\[mine:Net\]"):
        as_hydra_reads("train", words)
    assert as_hydra_reads("train", [*words, "trust_network=[mine:Net]"])


def test_each_door_has_its_type() -> None:
    types = {"train": MeasuredTrainConfig, "tune": TuneConfig, "crossval": CrossvalConfig}
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
        (["seed=1,2"], r"seed=1,2: .* -m seed=1,2.* seed=\[1,2\]$"),
        (["data.cache='a"], r"data.cache='a: .*bracket or quote"),
        (["network={a"], r"network={a: .*bracket or quote"),
    ],
)
def test_a_bad_override_is_a_settings_error(overrides: list[str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        compose("train", overrides)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(SettingsError, match=r"predict: .*allowed are build, train"):
        compose("predict")
    with pytest.raises(TypeError, match=r"such as \['seed=1'\]"):
        compose("train", "seed=1")
    with pytest.raises(SettingsError, match=r"out and source .*leakdet build RECORDINGS STORE"):
        compose("build")


def test_storing_twice_is_storing_once() -> None:
    for _ in range(2):
        store_schemas()
    for group, options in OPTIONS.items():
        assert set(ConfigStore.instance().list(group)) == {f"{name}.yaml" for name in options}


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
