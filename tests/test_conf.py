"""Every YAML file in conf/ composes to typed settings; wrong settings fail."""

from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from leakdet.cli.settings import OPTIONS, conf_folder, option_names
from leakdet.config import CallbacksConfig, SignalConfig
from leakdet.core.errors import LeakdetError
from leakdet.training.trainer import LOGGERS, make_loggers

GROUPS = option_names()
OF_TRAIN = [(group, option) for group in GROUPS if group != "search" for option in GROUPS[group]]


@pytest.mark.parametrize(("group", "option"), OF_TRAIN)
def test_every_option_of_train_composes(group: str, option: str, compose):
    config = compose("train", f"{group}={option}")
    assert config.trainer["accelerator"] in ("cpu", "gpu")


@pytest.mark.parametrize("search", GROUPS["search"])
def test_every_search_space_fits_the_training_settings(search: str, compose):
    from leakdet.tuning.space import check_space

    config = compose("tune", f"search={search}")
    check_space(config.search, config.training())


def test_a_search_can_be_changed_on_the_command_line(compose):
    config = compose(
        "tune", "search.lr.high=3e-3", "~search.gamma", "search.batch_size.choices=[64]"
    )
    assert config.search["lr"].high == 3e-3
    assert "gamma" not in config.search
    assert config.search["batch_size"].choices == [64]


@pytest.mark.parametrize("signal", GROUPS["signal"])
def test_every_signal_has_a_filterbank(signal: str, compose):
    from leakdet.acoustics.mel import mel_filterbank

    config = compose("build", f"signal={signal}", "source=x", "out=y")
    assert mel_filterbank(config.signal).shape == (config.signal.fft_samples // 2 + 1, 64)


def test_segments_per_window_of_each_signal(compose):
    segments = {
        name: compose("build", f"signal={name}", "source=x", "out=y").signal.segments
        for name in GROUPS["signal"]
    }
    assert segments == {"field": 30, "paper": 7, "ailh": 2, "ailh_overlap": 3}
    assert compose("build", "source=x", "out=y").signal == SignalConfig()


def test_the_default_recipe_is_field(compose):
    assert compose("train") == compose("train", "experiment=field")
    config = compose("train")
    assert (config.network.input_norm, config.network.time_pool) == ("level_free", 4)
    assert (config.data.sampling, config.decision.pooling) == ("balanced", "mean")
    assert (config.augment.eq_db, config.optimizer.lr) == (6.0, 1e-3)
    assert (config.network.conv_channels, config.network.dense) == (8, 32)
    assert (config.stop.name, config.stop.passes) == ("auto", 10)


def test_the_recipes_paper_and_ailh(compose):
    paper, ailh = compose("train", "experiment=paper"), compose("train", "experiment=ailh")
    assert (paper.network.name, paper.decision.pooling) == ("paper", "vote")
    assert (paper.network.conv_channels, paper.network.dropout) == (32, 0.25)
    assert (paper.optimizer.name, paper.optimizer.lr, paper.data.batch_size) == ("adam", 1e-3, 64)
    assert (paper.stop.name, paper.stop.passes, paper.trainer["max_epochs"]) == ("fixed", 200, 200)
    assert (paper.decision.policy, paper.decision.threshold) == ("fixed", 0.5)
    assert (paper.signal.detrend, paper.signal.highpass_hz) == ("linear", 20.0)
    assert paper.signal.sample_rate_hz == 8192
    assert (ailh.network.name, ailh.data.unit) == ("dual_head", "segment")
    assert ailh.loss.leak_weight_boost == 2.5
    assert paper.data.negatives is ailh.data.negatives is None  # their trainings had no such sounds


def test_the_command_line_overrides_the_recipe(compose):
    overrides = ("network.time_pool=2", "data.batch_size=64", "trainer.max_epochs=7")
    config = compose("train", "experiment=paper", *overrides)
    assert (config.network.time_pool, config.data.batch_size) == (2, 64)
    assert config.trainer["max_epochs"] == 7


def test_trainers_set_their_batch_size(compose):
    trainers = GROUPS["trainer"]
    sizes = {name: compose("train", f"trainer={name}").data.batch_size for name in trainers}
    assert sizes["cpu"] == sizes["ddp"] == 512
    assert sizes["gpu"] == 0  # by its memory


def test_missing_settings_are_named(compose):
    with pytest.raises(LeakdetError, match=r"out and source must be given"):
        compose("build")


@pytest.mark.parametrize(
    "override",
    [
        "network.dropuot=0.1",
        "network=transformer",
        "network.dropout=much",
        "trainer.max_epoch=3",
        "sed=1",
    ],
)
def test_misspelt_keys_types_and_options_fail(override: str, compose):
    with pytest.raises(Exception, match=override.split("=", maxsplit=1)[0].split(".")[-1]):
        compose("train", override)


def test_no_option_names_a_target():
    assert "_target_" not in str(OPTIONS)
    for path in conf_folder().rglob("*.yaml"):
        assert "_target_" not in path.read_text(), path
        assert isinstance(yaml.safe_load(path.read_text()), dict), path


@pytest.mark.parametrize("group", GROUPS)
def test_a_wrong_option_is_told_with_the_ones_there_are(group: str, door, tmp_path: Path):
    """Those with a file and those without alike."""
    verb = "tune" if group == "search" else "train"
    done = door(verb, f"{group}=nonesuch", cwd=tmp_path)
    assert done.returncode == 2
    options = ", ".join(GROUPS[group])
    assert f"{group} has no option 'nonesuch'; it has {options}." in done.stderr


def test_help_lists_every_option(door, tmp_path: Path):
    lines = door("train", "--help", cwd=tmp_path).stdout.splitlines()
    for group, options in GROUPS.items():
        listed = [line for line in lines if line.startswith(f"  {group} ")]
        assert listed == ([f"  {group:<12}{', '.join(options)}"] if group != "search" else [])


def test_callbacks_are_switched_off_together(compose):
    config = compose("train", "callbacks=none", "callbacks.collapse=true")
    assert asdict(config.callbacks) == dict.fromkeys(OPTIONS["callbacks"]["none"], False) | {
        "collapse": True,
        "extra": [],
    }
    assert compose("train").callbacks == CallbacksConfig()


def test_every_logger_has_a_yaml_file_and_a_branch(tmp_path: Path, compose):
    assert set(LOGGERS) | {"default", "none"} == set(GROUPS["logger"])
    assert len(make_loggers(compose("train").logger, tmp_path)) == 2
    assert make_loggers(compose("train", "logger=none").logger, tmp_path) == []
