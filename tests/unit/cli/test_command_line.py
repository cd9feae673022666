"""A command line is checked against the known names, and quoted as Hydra needs it."""

from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from leakdet.cli.command_line import checked
from leakdet.cli.composition import compose
from leakdet.cli.door_settings import known_settings
from leakdet.errors import SettingsError

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
        (["--epochs=5"], "Write trainer.max_epochs=5"),
        (["--lr", "0.1"], "Write optimizer.lr=0.1"),
        (["trainer.max_epocs=3"], r"trainer.max_epochs=3\? \(Other arguments of lightning.Trainer"),
        (["s_excel"], "settings are name=value"),
        (["patience"], "Did you mean patience="),
        (["split.group_by=day"], "is a setting of leakdet build"),
        (["network=papr"], "it has compact, dual_head, linear, paper.*Did you mean network=paper?"),
        (["-m", "network=paper,liner"], "no option 'liner'"),
        (["optimizer=3"], "give one of them, such as optimizer.lr=3"),
        (["-x"], "there is no such option"),
        (["+trainer.max_epocs=3"], r"no argument max_epocs. Did you mean trainer.max_epochs=3"),
        (["++trainer.profler=simple"], r"Did you mean \+trainer.profiler=simple\?$"),
        (["~optimizer.lr"], "cannot be taken away. Give it a value: optimizer.lr=VALUE"),
        (["network=null"], "network has no option 'null'; it has compact"),
        (["network=paper,linear"], "One run for each of them: -m network=paper,linear"),
        (["--cfg", "jobb"], "--cfg jobb: it shows one of job, hydra, all"),
        (["--cfg=jobb"], "--cfg jobb: it shows one of job, hydra, all"),
        (["--quiet"], "Write log=quiet$"),
        (["callbacks.foo=1"], "no setting callbacks.foo; callbacks has early_stopping, loss_stop"),
        (["callbacks.lr=1"], "Did you mean optimizer.lr=1[?]$"),
        (["optimizer.lrr=1"], "Did you mean optimizer.lr=1[?]$"),
        (["~network"], "a group cannot be taken away; network is one of compact, dual_head"),
        (["labels.leak=[a,b"], "labels.leak=.* must be a list such as"),
        (["init_reset=a]"], "init_reset=.* must be a list such as"),
        (["logger.csvv.x=1"], "no logger csvv; there are csv, .* mean logger.csv.x=1[?]"),
        (["=5"], "the name of the setting is missing: NAME=5"),
        (["optimizer.lr=abc"], "optimizer.lr='abc' .* must be a number of at least 0"),
        (["-m", "optimizer.lr=1e-3,abc"], "optimizer.lr='abc' .* must be a number of at least 0"),
        (["patience=1.5"], "patience='1.5' .* must be a whole number of at least 1"),
        (["patience=null"], "patience='null' .* must be a whole number"),
        (["find_lr=maybe"], "find_lr='maybe' .* must be true or false"),
        (["--cfg"], "--cfg : it shows one of job, hydra, all"),
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
