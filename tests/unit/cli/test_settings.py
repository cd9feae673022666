import inspect
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import lightning.pytorch as pl
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from leakdet.cli.catalogue import LIGHTNING_ARGUMENTS, Setting, catalogue, trainer_flag
from leakdet.cli.compose import compose
from leakdet.cli.settings import (
    DOORS,
    HABITS,
    OPTIONS,
    checked,
    conf_folder,
    known_settings,
    nearest,
    option_names,
    text_for_hydra,
    value_for_hydra,
)
from leakdet.config import BuildConfig, CrossvalConfig, TrainConfig, TuneConfig
from leakdet.core.errors import SettingsError

SETTING_NAMES = [setting.name for setting in catalogue(TrainConfig)]


def _leaves(values: dict, prefix: str = "") -> list[str]:
    names = []
    for key, value in values.items():
        inside = isinstance(value, dict) and value
        names += _leaves(value, f"{prefix}{key}.") if inside else [prefix + key]
    return names


def test_the_catalogue_has_every_field_and_its_default() -> None:
    assert _leaves(asdict(TrainConfig())) == SETTING_NAMES
    defaults = {setting.name: setting.default for setting in catalogue(TrainConfig)}
    assert defaults["optimizer.lr"] == TrainConfig().optimizer.lr
    assert defaults["init_reset"] == TrainConfig().init_reset


@pytest.mark.parametrize("schema", [BuildConfig, TrainConfig, TuneConfig, CrossvalConfig])
def test_every_setting_has_a_meaning(schema: type) -> None:
    assert [setting.name for setting in catalogue(schema) if not setting.meaning] == []


def test_types_are_plain_and_open_settings_are_known() -> None:
    settings = {setting.name: setting for setting in catalogue(TrainConfig)}
    assert settings["data.store"].kind is str
    assert settings["augment.interference_db"].kind is list
    assert [name for name, setting in settings.items() if setting.open] == [
        "network.extra",
        "loss.extra",
        "trainer",
        "logger",
    ]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("optimizr.lr", "optimizer.lr"),
        ("lr", "optimizer.lr"),
        ("learning_rate", "optimizer.lr"),
        ("optimizer.learning_rate", "optimizer.lr"),
        ("data.batchsize", "data.batch_size"),
        ("batch_size", "data.batch_size"),
        ("paitence", "patience"),
        ("drop_out", "network.dropout"),
    ],
)
def test_the_nearest_name_is_the_meant_one(typed: str, meant: str) -> None:
    assert nearest(typed, SETTING_NAMES)[0] == meant


def test_nothing_is_near_to_nonsense() -> None:
    assert nearest("s_excel", SETTING_NAMES) == []


def test_habits_lead_to_settings_that_exist() -> None:
    flags = [trainer_flag(flag).name for flag in ("max_epochs", "devices", "accelerator")]
    known = {s.name for door in DOORS.values() for s in catalogue(door.schema)}
    assert set(HABITS.values()) <= known | {*flags, "trainer.precision", "network"}


def test_every_argument_of_lightnings_trainer_is_listed() -> None:
    assert set(inspect.signature(pl.Trainer).parameters) <= set(LIGHTNING_ARGUMENTS)


NAMES = Setting("labels.leak", list, [], "", "", names=True)
MAPPING = Setting("labels.rename", dict, None, "", "", names=True)
COLUMNS = Setting("split.group_by", list, [], "", "")


def read(setting: Setting, value: str) -> object:
    written = value_for_hydra(value, setting, several=False)
    return OverridesParser.create().parse_override(f"x={written}").value()


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("leak", ["leak"]),
        ("a,b c", ["a", "b c"]),
        ("[gasket-leak, orifice-leak]", ["gasket-leak", "orifice-leak"]),
        ("[漏水,Leck (groß),a=b,O'Leak]", ["漏水", "Leck (groß)", "a=b", "O'Leak"]),
        ("['a, b',\"c]\"]", ["a, b", "c]"]),
        ("'a, b'", ["a, b"]),
        ("[]", []),
        ("null", None),
        ("1e5", ["1e5"]),
    ],
)
def test_one_name_or_a_list_of_names(typed: str, names: list[str] | None) -> None:
    found = read(NAMES, typed)
    assert (None if found is None else [str(name) for name in found]) == names


def test_a_decimal_comma_is_read_where_no_sweep_is_meant() -> None:
    rate = Setting("optimizer.lr", float, 0.1, "", "")
    assert value_for_hydra("0,001", rate, several=False) == "0.001"
    assert value_for_hydra("0,001", rate, several=True) == "0,001"


def test_numbers_in_a_list_stay_numbers() -> None:
    assert read(Setting("split.ratios", list, [], "", ""), "[0.7,0.2,0.1]") == [0.7, 0.2, 0.1]
    assert [str(name) for name in read(COLUMNS, "[Straße]")] == ["Straße"]


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("{old: new}", {"old": "new"}),
        ("{漏水:leak, O'Leak: leak}", {"漏水": "leak", "O'Leak": "leak"}),
        ("{'a: b': \"c, d\", Leck (groß): a=b}", {"a: b": "c, d", "Leck (groß)": "a=b"}),
        ("{}", {}),
        ("null", {}),
    ],
)
def test_a_mapping_of_names(typed: str, names: dict[str, str]) -> None:
    assert compose("train", [f"labels.rename={typed}"]).labels.rename == names


@pytest.mark.parametrize("typed", ["old", "{old}", "{old: new}x", "{a: b, c}", "[a, b]"])
def test_what_is_no_mapping_is_refused(typed: str) -> None:
    with pytest.raises(SettingsError, match=r"labels\.rename=\{old: new, other: new\}"):
        value_for_hydra(typed, MAPPING, several=False)


def test_a_sweep_and_what_is_written_out_pass() -> None:
    assert text_for_hydra("a,b", several=True) == "a,b"
    assert text_for_hydra("a b", several=True) == "'a b'"
    assert value_for_hydra("${other}", NAMES, several=False) == "${other}"


TRAIN = known_settings("train")


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["optimizr.lr=1"], "Did you mean optimizer.lr=1"),
        (["+optimizr.lr=1"], "Did you mean optimizer.lr=1"),
        (["++optimizer.learning_rate=0.1"], "Did you mean optimizer.lr=0.1?"),
        (["~optimizr.lr"], "Did you mean optimizer.lr"),
        (["+network.channels=4"], "network.conv_channels=4"),
        (["epochs=5"], "Did you mean trainer.max_epochs=5?"),
        (["--epochs", "5"], "Write trainer.max_epochs=5"),
        (["--doubt", "0.1"], "Write decision.doubt=0.1"),
        (["--resume", "store"], "Write resume=store"),
        (["--early_stopping", "store"], "Write patience=VALUE"),
        (["--epochs=5"], "Write trainer.max_epochs=5"),
        (["--lr", "0.1"], "Write optimizer.lr=0.1"),
        (["trainer.max_epocs=3"], r"Did you mean trainer.max_epochs=3\?"),
        (["s_excel"], "settings are name=value"),
        (["patience"], "Did you mean patience="),
        (["split.group_by=day"], "split.group_by.* leakdet build"),
        (["network=papr"], "it has compact, dual_head, linear, paper.*Did you mean network=paper?"),
        (["-m", "network=paper,liner"], "no option 'liner'"),
        (["optimizer=3"], "such as optimizer.lr=3"),
        (["-x"], "-x: .*no such option"),
        (["+trainer.max_epocs=3"], r"no argument max_epocs. Did you mean trainer.max_epochs=3"),
        (["++trainer.profler=simple"], r"Did you mean \+trainer.profiler=simple\?$"),
        (["~optimizer.lr"], "~optimizer.lr.*: optimizer.lr=VALUE"),
        (["network=null"], "network has no option 'null'; it has compact"),
        (["network=paper,linear"], ": -m network=paper,linear"),
        (["--cfg", "jobb"], "--cfg jobb: .*job, hydra, all"),
        (["--cfg=jobb"], "--cfg jobb: .*job, hydra, all"),
        (["--quiet"], "Write log=quiet$"),
        (["callbacks.foo=1"], "no setting callbacks.foo; callbacks has early_stopping, loss_stop"),
        (["callbacks.lr=1"], "Did you mean optimizer.lr=1[?]$"),
        (["optimizer.lrr=1"], "Did you mean optimizer.lr=1[?]$"),
        (["~network"], "~network.* network is one of compact, dual_head"),
        (["labels.leak=[a,b"], "labels.leak=.* list such as"),
        (["init_reset=a]"], "init_reset=.* list such as"),
        (["logger.csvv.x=1"], "no logger csvv; there are csv, .* mean logger.csv.x=1[?]"),
        (["=5"], "name .*missing: NAME=5"),
        (["optimizer.lr=abc"], "optimizer.lr='abc' .* number of at least 0"),
        (["-m", "optimizer.lr=1e-3,abc"], "optimizer.lr='abc' .* number of at least 0"),
        (["patience=1.5"], "patience='1.5' .* whole number of at least 1"),
        (["patience=null"], "patience='null' .* whole number"),
        (["find_batch_size=true"], "find_batch_size .*removed.*data.batch_size=0"),
        (["find_lr=maybe"], "find_lr='maybe' .* true or false"),
        (["--cfg"], "--cfg : .*job, hydra, all"),
        (["surrogates=1"], "surrogates=1: .*removed.* docs/augmentation.md"),
    ],
)
def test_a_misspelling_is_refused_with_what_was_meant(arguments: list[str], remedy: str) -> None:
    with pytest.raises(SettingsError, match=remedy):
        checked(arguments, TRAIN)


@pytest.mark.parametrize(
    "arguments",
    [
        ["optimizer.lr=1e-3", "network=linear", "experiment=smoke", "trainer=gpu"],
        ["-m", "seed=1,2", "network=paper,linear", "optimizer.lr=choice(1e-3,1e-2)"],
        ["--cfg", "job", "--resolve", "--config-dir", "mine", "network=mine"],
        ["hydra.run.dir=x", "hydra/launcher=joblib", "+trainer.profiler=simple"],
        ["network.extra.width=3", "logger.wandb.project=x", "~logger.csv"],
        ["augment.interference_db=[-20,0]", "data.store=null", "data.store=${oc.env:HOME}"],
    ],
)
def test_what_hydra_reads_passes_unchanged(arguments: list[str]) -> None:
    assert checked(arguments, TRAIN) == arguments


@pytest.mark.parametrize("argument", ["+patience=3", "++patience=3", "+network=linear"])
def test_a_plus_before_what_is_there_already_is_no_fault(argument: str) -> None:
    assert checked([argument], TRAIN) == [argument.lstrip("+")]


def test_the_arguments_of_a_logger_need_no_plus_sign() -> None:
    words = ["logger=csv", "logger.csv.flush_logs_every_n_steps=7"]
    assert compose("train", words).logger == {"csv": {"flush_logs_every_n_steps": 7}}


ODD = ["漏水", "Leck (groß)", "a=b", "it's", "C:\\x\\", "~leak", "no leak", "01", "true", "NAN"]


@pytest.mark.parametrize("label", ODD)
def test_any_text_is_a_name(label: str) -> None:
    assert compose("train", [f"labels.leak={label}"]).labels.leak == [label]
    assert compose("train", [f"labels.leak=[x,{label}]"]).labels.leak == ["x", label]
    assert compose("train", [f"data.cache={label}"]).data.cache == label


def test_a_mapping_that_is_none_is_refused_with_how_to_write_it() -> None:
    with pytest.raises(SettingsError, match=r"write it as labels\.rename=\{valve: normal\}$"):
        checked(["labels.rename.valve=normal"], TRAIN)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1))
@example("NULL")
@example("\\'")
@example("a\\\\'b\\")
def test_hydra_reads_back_every_quoted_text(text: str) -> None:
    if text[0] in "'\"" or text == "null" or "${" in text or "(" in text:
        return  # written out by the user
    (argument,) = checked([f"data.cache={text}"], TRAIN)
    value = OverridesParser.create().parse_override(argument).value()
    assert str(value) == text


def test_one_name_is_a_list_of_one() -> None:
    config = compose("build", ["source=x", "out=y", "split.group_by=day"])
    assert config.split.group_by == ["day"]
    config = compose("build", ["source=x", "out=y", "split.group_by=site,day of week"])
    assert config.split.group_by == ["site", "day of week"]


def test_a_sweep_over_stores_is_several_paths(tmp_path: Path) -> None:
    swept = checked(["-m", "data.store=a,b c"], TRAIN)
    assert swept == ["-m", "data.store=a,'b c'"]
    both = tmp_path / "a,b"
    both.mkdir()
    assert checked(["-m", f"data.store={both}"], TRAIN) == ["-m", f"data.store='{both}'"]


def test_an_option_is_a_file_or_stored_and_never_both():
    names = option_names()
    files = [(path.parent.name, path.stem) for path in conf_folder().rglob("*/*.yaml")]
    stored = [(group, option) for group, options in OPTIONS.items() for option in options]
    assert len({*files, *stored}) == len(files) + len(stored)
    assert sorted([*files, *stored]) == sorted((g, o) for g in names for o in names[g])


@pytest.mark.parametrize("door", DOORS)
def test_each_door_knows_only_its_own_groups(door: str) -> None:
    groups = known_settings(door).groups
    assert ("search" in groups) == (door == "tune")
    assert ("network" in groups) == (door != "build")


def test_other_doors_settings_are_known_as_such() -> None:
    known = known_settings("train")
    assert "tune.n_trials" not in known.settings
    assert known.elsewhere["tune.n_trials"] == "tune"
    assert known.settings["data.unit"].choices == ("window", "segment")
    assert known.settings["trainer.max_epochs"].kind is object
    assert "-1 for no limit" in known.settings["trainer.max_epochs"].allowed


def test_names_are_known_without_hydra_and_torch() -> None:
    code = (
        "import sys; from leakdet.cli.settings import known_settings; known_settings('train')\n"
        "print({'hydra', 'torch', 'numpy'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
