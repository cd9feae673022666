import pytest

from leakdet.config import BuildConfig, DemoConfig, LabelsConfig, SplitConfig
from leakdet.core.errors import SettingsError


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (SplitConfig, {"ratios": [0.5, 0.2, 0.2]}, r"split\.ratios=.*add up to 1"),
        (SplitConfig, {"ratios": [0.5, 0.5]}, "three shares"),
        (SplitConfig, {"ratios": [1.5, -0.5, 0.0]}, "three shares"),
        (SplitConfig, {"ratios": [0.0, 0.5, 0.5]}, "more than 0 for train"),
        (DemoConfig, {"leak_fraction": -0.1}, r"demo\.leak_fraction=-0\.1"),
        (LabelsConfig, {"mode": "both"}, r"labels\.mode='both' .*one of binary, multiclass"),
        (BuildConfig, {"verify": "maybe"}, "one of off, sample, full"),
        (BuildConfig, {"workers": -1}, "^workers=-1"),
    ],
)
def test_a_bad_value_names_the_setting_and_what_is_allowed(kind, changes, message: str):
    with pytest.raises(SettingsError, match=message):
        kind(**changes)
