import pytest

from leakdet.config import CrossvalConfig, CrossvalSettings, ProtocolConfig, TrainConfig
from leakdet.core.errors import SettingsError


def test_one_value_or_many_become_lists_of_texts():
    protocol = ProtocolConfig(group_by="pipe", where={"pipe": [1, 3], "label": "leak"})
    assert protocol.group_by == ["pipe"]
    assert protocol.where == {"pipe": ["1", "3"], "label": ["leak"]}
    assert ProtocolConfig().where == {}


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (ProtocolConfig, {"folds": 1}, r"crossval\.folds=1 .*at least 2"),
        (ProtocolConfig, {"folds": -1}, r"crossval\.folds=-1"),
        (ProtocolConfig, {"group_by": []}, r"crossval\.group_by=\[\] .*list"),
        (ProtocolConfig, {"where": "pipe"}, r"crossval\.where='pipe' .*such as"),
        (ProtocolConfig, {"where": {"pipe": None}}, r"crossval\.where\.pipe=None"),
        (CrossvalSettings, {"part": 2, "parts": 2}, r"crossval\.part=2 .*below parts=2"),
        (CrossvalSettings, {"val_fraction": 1.0}, r"crossval\.val_fraction=1"),
        (CrossvalSettings, {"protocols": [1]}, "a group of protocols"),
        (CrossvalSettings, {"protocols": {"a": {"fold": 2}}}, r"protocols\.a=.*folds, group_by"),
    ],
)
def test_a_bad_value_names_the_setting_and_what_is_allowed(kind, changes, message: str):
    with pytest.raises(SettingsError, match=message):
        kind(**changes)


def test_protocols_have_names():
    one = CrossvalSettings(group_by=["pipe", "day"], folds=3)
    assert one.by_name() == {"leave-out-pipe-day": ProtocolConfig(["pipe", "day"], None, 3)}
    several = CrossvalSettings(protocols={"a": {"group_by": "pipe"}, "b": {"folds": 2}})
    assert several.by_name() == {"a": ProtocolConfig("pipe"), "b": ProtocolConfig(folds=2)}


def test_what_is_held_out_may_be_left_to_the_store():
    bare = CrossvalSettings()
    assert bare.groups_left_open
    assert bare.by_name() == {"leave-out-recording": ProtocolConfig("recording")}
    assert bare.grouped_by(["site", "day"]).by_name() == {
        "leave-out-site-day": ProtocolConfig(["site", "day"])
    }
    given = CrossvalSettings(group_by="pipe")
    assert not given.groups_left_open
    assert given.grouped_by(["site"]) == given
    several = CrossvalSettings(protocols={"a": {"group_by": "pipe"}, "b": {"folds": 2}})
    assert several.groups_left_open
    assert several.grouped_by(["site"]).by_name() == {
        "a": ProtocolConfig("pipe"),
        "b": ProtocolConfig("site", folds=2),
    }
    all_given = CrossvalSettings(protocols={"a": {"group_by": "pipe"}})
    assert not all_given.groups_left_open


def test_a_folds_training_has_its_own_seed():
    training = CrossvalConfig(patience=3).training(seed=7)
    assert type(training) is TrainConfig
    assert (training.seed, training.patience) == (7, 3)
