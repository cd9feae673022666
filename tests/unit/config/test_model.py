import pytest

from leakdet.config import DecisionConfig, LossConfig, NetworkConfig
from leakdet.core.errors import SettingsError


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (NetworkConfig, {"name": "transformer"}, "one of paper, dual_head, linear"),
        (NetworkConfig, {"name": "my package:Net"}, "package.module:Class"),
        (NetworkConfig, {"name": "package.:Net"}, "package.module:Class"),
        (NetworkConfig, {"extra": {"width": 3}}, r"network\.extra=\{'width': 3\} .*empty for"),
        (LossConfig, {"name": "focall"}, "focal, or package.module:function"),
        (LossConfig, {"extra": {"power": 3}}, r"loss\.extra=\{'power': 3\} .*loss\.name=ce"),
        (NetworkConfig, {"dropout": 1.0}, r"network\.dropout=1\.0 .*below 1"),
        (NetworkConfig, {"time_pool": 0}, r"network\.time_pool=0"),
        (LossConfig, {"alpha": 2.0}, r"loss\.alpha=2\.0"),
        (LossConfig, {"pos_weight": 0.0}, r"loss\.pos_weight=0\.0 .*above 0"),
        (DecisionConfig, {"vote_fraction": 0.0}, r"decision\.vote_fraction=0\.0"),
        (DecisionConfig, {"policy": "best"}, "one of auto, max_f1, max_fpr"),
        (DecisionConfig, {"threshold": 1.5}, r"decision\.threshold=1\.5"),
    ],
)
def test_a_bad_value_names_the_setting_and_what_is_allowed(kind, changes, message: str):
    with pytest.raises(SettingsError, match=message):
        kind(**changes)


def test_user_code_takes_any_settings():
    assert NetworkConfig("nets:Net", extra={"width": 3}).extra == {"width": 3}
    assert LossConfig("my.losses:focal", extra={"power": 2.0}).name == "my.losses:focal"
