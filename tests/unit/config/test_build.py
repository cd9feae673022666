import pytest

from leakdet.config import BuildConfig, DemoConfig, LabelsConfig, SplitConfig
from leakdet.errors import SettingsError


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
        (BuildConfig, {"surrogates": -1}, "^surrogates=-1"),
    ],
)
def test_a_bad_value_names_the_setting_and_what_is_allowed(kind, changes, message: str):
    with pytest.raises(SettingsError, match=message):
        kind(**changes)


@pytest.mark.parametrize(
    ("shard", "part"), [("", None), ("merge", None), ("0/3", (0, 3)), ("2/3", (2, 3))]
)
def test_a_shard_is_a_part_of_a_whole(shard: str, part: tuple[int, int] | None):
    assert BuildConfig(shard=shard).shard_part == part


@pytest.mark.parametrize("shard", ["3/3", "1", "1/", "/2", "a/b", "-1/2", "0/100000", "join"])
def test_other_shards_are_refused(shard: str):
    with pytest.raises(SettingsError, match=r"i/n with i from 0 to n-1, or merge"):
        BuildConfig(shard=shard)
