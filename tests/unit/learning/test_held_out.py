"""Which new recordings judge."""

import numpy as np
import pytest

from leakdet.errors import SettingsError
from leakdet.learning.held_out import fold_keys, held_out_group, known_of_others, parts

SITE = np.array(["a"] * 4 + ["b"] * 8)
LEAK = np.array([1, 0] * 6, bool)
TIME = np.array([f"2026-11-{day:02}" for day in range(1, 13)])


def test_the_newest_group_that_may_decide_is_held_out() -> None:
    found = held_out_group("auto", {"site": SITE, "recorded_at": TIME}, LEAK, 2, [])
    assert found is not None
    assert (found.column, found.value, found.rows.tolist()) == ("site", "b", list(range(4, 12)))


def test_days_of_a_spreadsheet_are_in_the_order_of_time() -> None:
    days = np.array(["28.11.2026"] * 8 + ["02.12.2026"] * 8)
    groups = {"site": np.array(["b"] * 8 + ["a"] * 8), "recorded_at": days}
    found = held_out_group("auto", groups, np.array([1, 0] * 8, bool), 2, [])
    assert found is not None
    assert found.value == "a"


@pytest.mark.parametrize(
    "groups",
    [
        {"site": SITE},  # nothing says which is the newest
        {"site": SITE, "recorded_at": np.array(["11/20/2026"] * 12)},  # it may be any order
        {"site": SITE[::-1].copy(), "recorded_at": TIME},  # the newest has four recordings
        {"weather": SITE, "recorded_at": TIME},  # no place
        {"site": np.array(["b"] * 12), "recorded_at": TIME},  # nothing would be left
    ],
)
def test_otherwise_none_is(groups: dict[str, np.ndarray]) -> None:
    assert held_out_group("auto", groups, LEAK, 2, []) is None


def test_one_may_be_named_or_none() -> None:
    groups = {"site": SITE, "recorded_at": TIME}
    found = held_out_group("site:a", groups, LEAK, 2, [])
    assert found is not None
    assert found.rows.tolist() == [0, 1, 2, 3]
    assert held_out_group("none", groups, LEAK, 2, []) is None


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("pipe:1", "no column pipe; they have kind, site"),
        ("site:c", "there are a, b"),
        ("kind:leak", "one class only"),
        ("site:b", "fewer than 3"),
    ],
)
def test_what_cannot_judge_is_refused(wanted: str, why: str) -> None:
    groups = {"site": SITE, "kind": np.where(LEAK, "leak", "quiet")}
    with pytest.raises(SettingsError, match=why):
        held_out_group(wanted, groups, LEAK, 3, [])


@pytest.mark.parametrize("size", [2, 3, 8])
def test_every_recording_is_scored_once_by_a_model_of_others(size: int) -> None:
    leaks = np.array([1] * size + [0] * size, bool)
    keys = np.arange(2 * size).astype(str)
    seen: list[int] = []
    for rest, out in parts(keys, leaks, 4, seed=0):
        assert not set(rest) & set(out)
        assert 0 < leaks[rest].sum() < len(rest)
        seen += out.tolist()
    assert sorted(seen) == list(range(2 * size))


def test_places_are_kept_apart_where_several_have_each_class() -> None:
    ids = np.arange(12).astype(str)
    assert fold_keys({"site": SITE}, ids, LEAK)[1] == "site"
    assert fold_keys({"site": np.where(LEAK, "a", "b")}, ids, LEAK)[1] == "recording"
    assert fold_keys({}, ids, LEAK)[1] == "recording"


def test_unverified_recordings_are_kept_apart_by_what_the_folds_keep_apart() -> None:
    ids, files = np.array(["x", "y", "z"]), {"source_file": np.array(["f", "", "g"])}
    assert known_of_others(files, ids, "recording", np.array(["f", "y"])).tolist() == [2]
    assert known_of_others(files, ids, "site", np.array(["a"])).tolist() == []  # none is told
