"""Settings of learn."""

import pytest

from leakdet.cli.catalogue import catalogue
from leakdet.config import LearnConfig, TrainerFlags
from leakdet.core.errors import SettingsError


def test_a_target_training_has_its_steps_and_chooses_nothing(compose) -> None:
    config = compose("learn", "model=m", "learn.steps=200").target()
    assert config.trainer["limit_train_batches"] * config.trainer["max_epochs"] == 200
    assert TrainerFlags.of(config.trainer).max_epochs == config.stop.passes
    assert (config.data.batch_size, config.data.sampling) == (48, "balanced")
    assert (config.network.conv_channels, config.network.dense) == (8, 32)
    assert (config.stop.name, config.decision.policy, config.decision.threshold) == (
        "fixed",
        "fixed",
        0.5,
    )
    assert config.augment.eq_db > 0
    assert config.threads == 1
    assert compose("learn", "model=m", "threads=2").target().threads == 2


def test_without_a_store_there_is_no_demo(compose) -> None:
    meaning = {setting.name: setting.meaning for setting in catalogue(LearnConfig)}
    assert not [name for name in meaning if name.startswith("data.") and "demo" in meaning[name]]
    assert "the new recordings alone are learnt" in meaning["data.store"]
    config = compose("learn", "model=m", "data.batch_size=7")
    assert (config.data.store, config.joint().data.batch_size) == (None, 7)


def test_learn_from_is_given_by_its_name(compose) -> None:
    assert compose("learn", "model=m").learn.from_ == "auto"
    assert compose("learn", "model=m", "learn.from=joint").learn.from_ == "joint"


@pytest.mark.parametrize(
    ("word", "about"),
    [
        ("learn.from=head", "one of auto, target, joint"),
        ("learn.hold_out=site", "COLUMN:VALUE"),
        ("learn.min_per_class=1", "at least 2"),
        ("init_from=old.ckpt", "random weights"),
        ("resume=latest", "repeat the command"),
    ],
)
def test_what_cannot_be_is_refused(compose, word: str, about: str) -> None:
    with pytest.raises(SettingsError, match=about):
        compose("learn", "model=m", word)
