import numpy as np
import pytest
from sklearn.metrics import f1_score

from leakdet.evaluation.groups import group_tables, worst_sentence


def drawn(rng, n):
    return rng.random(n) < 0.5, rng.random(n) < 0.5, rng.integers(0, 4, n).astype(str)


def test_counts_and_rates_equal_those_of_each_group_alone():
    is_leak, decision, site = drawn(np.random.default_rng(0), 200)
    rows = group_tables({"site": site}, is_leak, decision)["columns"]["site"]
    assert {row["value"] for row in rows} == {"0", "1", "2", "3"}
    for row in rows:
        inside = site == row["value"]
        assert row["n"] == inside.sum()
        assert row["fp"] == (inside & decision & ~is_leak).sum()
        assert row["fn"] == (inside & ~decision & is_leak).sum()
        assert row["f1"] == pytest.approx(f1_score(is_leak[inside], decision[inside]))
    lower = [row["intervals"]["error_rate"][0] for row in rows]
    assert lower == sorted(lower, reverse=True)


def test_a_planted_bad_sensor_is_named_and_stands_out():
    is_leak = np.tile([True, False], 100)
    sensor = np.repeat(["a", "b", "c", "d"], 50)
    decision = np.where(sensor == "c", False, is_leak)  # c misses every leak
    groups = group_tables({"sensor": sensor}, is_leak, decision)
    worst = groups["worst"]
    assert (worst["column"], worst["value"], worst["errors"], worst["n"]) == ("sensor", "c", 25, 50)
    assert (worst["others_errors"], worst["others_n"]) == (0, 150)
    assert worst["stands_out"]
    assert "sensor c, 25 of 50 wrong" in worst_sentence(groups)


def test_chance_alone_seldom_stands_out():
    called = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        is_leak = rng.random(120) < 0.5
        decision = is_leak ^ (rng.random(120) < 0.2)
        worst = group_tables({"site": rng.integers(0, 6, 120).astype(str)}, is_leak, decision)[
            "worst"
        ]
        called += worst is not None and worst["stands_out"]
    assert called <= 5


def test_one_unlucky_recording_is_not_the_worst_group():
    site = np.array(["lone", *["big"] * 20, *["good"] * 20])
    is_leak = np.ones(41, np.bool_)
    decision = is_leak.copy()
    decision[[0, 1, 2, 3, 4, 5, 6, 7, 8]] = False
    assert group_tables({"site": site}, is_leak, decision)["worst"]["value"] == "big"


def test_columns_that_are_no_groups_are_left_out_with_the_reason():
    n = 120
    columns = {
        "day": np.full(n, "monday"),
        "timestamp": np.arange(n).astype(str),
        "street": (np.arange(n) // 2).astype(str),
    }
    groups = group_tables(columns, np.ones(n, np.bool_), np.ones(n, np.bool_))
    assert groups["columns"] == {}
    assert set(groups["left_out"]) == set(columns)
    assert groups["worst"] is None
    assert worst_sentence(groups) is None


def test_a_group_without_leaks_has_no_recall_and_one_without_others_no_fpr():
    is_leak = np.array([True, True, False, False])
    rows = group_tables({"site": np.array(["a", "a", "b", "b"])}, is_leak, is_leak)["columns"][
        "site"
    ]
    by_site = {row["value"]: row for row in rows}
    assert (by_site["a"]["fpr"], by_site["a"]["recall"], by_site["a"]["intervals"]["fpr"]) == (
        None,
        1.0,
        None,
    )
    assert (by_site["b"]["f1"], by_site["b"]["recall"], by_site["b"]["fpr"]) == (None, None, 0.0)
