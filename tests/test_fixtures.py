"""What the fixtures of the tests shorten gives what a user has."""

import pytest
from tests.conftest import composed_quickly

from leakdet.cli.compose import compose
from leakdet.core.errors import SettingsError

SMALL = ("experiment=smoke", "logger=none", "data.batch_size=16", "data.store=/tmp/x")


@pytest.mark.parametrize(
    ("door", "overrides"),
    [
        ("train", ("seed=3", "optimizer.lr=0.5")),
        ("train", ("network=linear", "network.dropout=0.1", "callbacks.extra=[a:B]")),
        ("train", ("+trainer.max_time={seconds:0}",)),
        ("crossval", ("crossval.where={site:[a,b]}",)),
        ("tune", ("search=small", "search.lr.low=1e-5")),
    ],
)
def test_settings_are_composed_as_for_a_user(door: str, overrides: tuple[str, ...]) -> None:
    words = (*SMALL, *overrides)
    for _ in range(2):  # the first settings were not changed by the second ones
        assert composed_quickly(door, words) == compose(door, words)


def test_a_setting_that_is_wrong_is_refused_as_for_a_user() -> None:
    with pytest.raises(SettingsError, match=r"optimizer\.lr=1"):
        composed_quickly("train", ("optimizer.lrr=1",))
