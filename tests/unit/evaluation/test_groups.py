import numpy as np
import pytest
from sklearn.metrics import f1_score

from leakdet.evaluation.groups import (
    MAX_SENSORS,
    group_tables,
    sensor_rows,
    sensor_sentences,
    worst_sentence,
)
from leakdet.evaluation.metrics import auroc


def drawn(rng, n):
    return rng.random(n) < 0.5, rng.random(n) < 0.5, rng.integers(0, 4, n).astype(str)


def test_counts_and_rates_equal_those_of_each_group_alone():
    is_leak, decision, site = drawn(np.random.default_rng(0), 200)
    rows = group_tables({"site": site}, is_leak, decision, decision * 1.0)["columns"]["site"]
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
    groups = group_tables({"sensor": sensor}, is_leak, decision, decision * 1.0)
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
        site = rng.integers(0, 6, 120).astype(str)
        worst = group_tables({"site": site}, is_leak, decision, decision * 1.0)["worst"]
        called += worst is not None and worst["stands_out"]
    assert called <= 5


def test_one_unlucky_recording_is_not_the_worst_group():
    site = np.array(["lone", *["big"] * 20, *["good"] * 20])
    is_leak = np.ones(41, np.bool_)
    decision = is_leak.copy()
    decision[[0, 1, 2, 3, 4, 5, 6, 7, 8]] = False
    assert (
        group_tables({"site": site}, is_leak, decision, decision * 1.0)["worst"]["value"] == "big"
    )


def test_columns_that_are_no_groups_are_left_out_with_the_reason():
    n = 120
    columns = {
        "day": np.full(n, "monday"),
        "timestamp": np.arange(n).astype(str),
        "street": (np.arange(n) // 2).astype(str),
    }
    groups = group_tables(columns, np.ones(n, np.bool_), np.ones(n, np.bool_), np.ones(n))
    assert groups["columns"] == {}
    assert set(groups["left_out"]) == set(columns)
    assert groups["worst"] is None
    assert worst_sentence(groups) is None


def test_a_group_without_leaks_has_no_recall_and_one_without_others_no_fpr():
    is_leak = np.array([True, True, False, False])
    site = np.array(["a", "a", "b", "b"])
    rows = group_tables({"site": site}, is_leak, is_leak, is_leak * 1.0)["columns"]["site"]
    by_site = {row["value"]: row for row in rows}
    assert (by_site["a"]["fpr"], by_site["a"]["recall"], by_site["a"]["intervals"]["fpr"]) == (
        None,
        1.0,
        None,
    )
    assert (by_site["b"]["f1"], by_site["b"]["recall"], by_site["b"]["fpr"]) == (None, None, 0.0)
    assert [row["auroc"] for row in rows] == [None, None]
    assert [row["intervals"]["auroc"] for row in rows] == [None, None]


def two_sensors(rng, n=80):
    """Scores that rank leaks well on sensor a, and not at all on b, whose scores are higher."""
    is_leak, sensor = np.arange(n) % 2 == 0, np.repeat(["a", "b"], n // 2)
    score = np.where(sensor == "a", 0.3 * is_leak, 0.5) + 0.2 * rng.random(n)
    return is_leak, sensor, score


def test_the_auroc_of_a_sensor_is_that_of_its_recordings_among_themselves():
    is_leak, sensor, score = two_sensors(np.random.default_rng(0))
    columns = {"sensor_id": sensor, "site": np.roll(sensor, 20)}
    groups = group_tables(columns, is_leak, score >= 0.5, score)
    rows = {row["value"]: row for row in sensor_rows(groups)}
    assert set(rows) == {"a", "b"}  # site is no sensor
    for name, row in rows.items():
        inside = sensor == name
        assert row["auroc"] == auroc(score[inside], is_leak[inside])
        low, high = row["intervals"]["auroc"]
        assert low <= row["auroc"] <= high
    assert rows["a"]["auroc"] == 1.0
    assert rows["a"]["intervals"]["auroc"][0] < 0.95  # 40 recordings cannot show that it is perfect
    assert rows["b"]["auroc"] < 0.7


def test_each_of_several_sensors_is_told_and_one_alone_is_not():
    is_leak, sensor, score = two_sensors(np.random.default_rng(0))
    told = list(sensor_sentences(group_tables({"sensor": sensor}, is_leak, score >= 0.4, score)))
    assert [sentence[:9] for sentence in told] == ["sensor b:", "sensor a:"]  # worst first
    assert "20 of 20 leaks found, 20 false alarms on 20 others" in told[0]
    assert told[1].startswith("sensor a: AUROC 1.00 [")
    lone = group_tables({"sensor": np.full(80, "a")}, is_leak, score >= 0.4, score)
    assert list(sensor_sentences(lone)) == []


def test_of_many_sensors_the_worst_are_told():
    n = 4 * (MAX_SENSORS + 3)
    sensor, is_leak = np.repeat(np.arange(n // 4), 4).astype(str), np.arange(n) % 2 == 0
    groups = group_tables({"sensor": sensor}, is_leak, is_leak, is_leak * 1.0)
    told = list(sensor_sentences(groups))
    assert len(told) == MAX_SENSORS + 1
    assert told[-1].startswith("3 more sensors")
