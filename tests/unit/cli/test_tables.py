"""Tables that commands print."""

from typing import Any

import pytest

from leakdet.cli.tables import (
    WITHOUT_OTHERS,
    comparison_text,
    metrics_text,
    protocols_text,
)
from leakdet.detection.decision import DecisionRule

COVERAGE = {
    "share_decided": 0.8,
    "wrong_of_decided": None,
    "wrong_of_all": 0.1,
    "undefined": {"wrong_of_decided": "nothing is decided"},
    "intervals": {
        "share_decided": [0.7, 0.9],
        "wrong_of_decided": None,
        "wrong_of_all": [0.0, 0.2],
    },
}
GROUPS = {"columns": {}, "left_out": {}, "worst": None}


def table(**changes: Any) -> dict[str, Any]:
    values = {"f1": 0.75, "auroc": 0.875, "precision": 1.0, "recall": 0.6, "fpr": 0.0}
    values |= {"accuracy": 0.7, "tp": 3, "fp": 0, "fn": 2, "tn": 4, "n": 9, "positives": 5}
    intervals = {"f1": [0.3, 1.0], "auroc": [0.5, 1.0], "recall": [0.2, 0.9], "fpr": None}
    return {**values, "undefined": {}, "intervals": intervals, **changes}


@pytest.fixture(autouse=True)
def _wide_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def rows_of(text: str) -> dict[str, list[str]]:
    """The first cell of each table row, and the others."""
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines()]
    return {row[0]: row[1:] for row in cells if row}


def test_metrics_stand_beside_their_intervals_split_by_split() -> None:
    undefined = table(auroc=None, undefined={"auroc": "no recording is a leak"})
    splits = {"val": {"recording": table(), "coverage": COVERAGE, "groups": GROUPS}}
    splits["test"] = {"recording": undefined, "coverage": COVERAGE, "groups": GROUPS}
    undefined["intervals"]["note"] = "the intervals rest on 2 groups only and are too narrow"
    text = metrics_text(splits, DecisionRule(threshold=0.25, fitted_on="val", note="few leaks"))
    rows = rows_of(text)
    assert rows["f1"] == ["0.7500 [0.30, 1.00]"] * 2
    assert rows["auroc"] == ["0.8750 [0.50, 1.00]", "n/a (no recording is a leak)"]
    assert rows["fpr"] == ["0.0000"] * 2
    assert rows["tp"] == ["3", "3"]
    assert rows["share decided"] == ["0.8000 [0.70, 0.90]"] * 2
    assert rows["wrong of decided"] == ["n/a (nothing is decided)"] * 2
    assert "leak_prob >= 0.2500 (fixed, fitted on val)" in text
    assert "Note: few leaks" in text
    assert f"Intervals of test: {undefined['intervals']['note']}" in text
    assert "Intervals of val" not in text


def test_each_sensor_of_the_last_split_is_told_and_how_to_see_it_without_the_others() -> None:
    def sensors(*names: str) -> dict[str, Any]:
        rows = [
            {"value": name, "auroc": None, "intervals": {"auroc": None}}
            | {"tp": 1, "positives": 2, "fp": 1, "negatives": 3}
            for name in names
        ]
        return {
            "recording": table(),
            "coverage": COVERAGE,
            "groups": {**GROUPS, "columns": {"sensor": rows}},
        }

    text = metrics_text({"val": sensors("a", "b"), "test": sensors("c", "d")}, DecisionRule())
    assert [line for line in text.splitlines() if line.startswith("Sensors of")] == [
        f"Sensors of test: sensor {name}: AUROC n/a, 1 of 2 leaks found, 1 false alarm on 3 others"
        for name in "cd"
    ]
    assert WITHOUT_OTHERS in text
    assert WITHOUT_OTHERS not in metrics_text(
        {"test": {"recording": table(), "coverage": COVERAGE, "groups": GROUPS}}, DecisionRule()
    )


def test_two_models_are_compared_row_by_row() -> None:
    differences = [
        {"metric": "f1", "a": 0.5, "b": 0.75, "difference": 0.25, "interval": [-0.1, 0.6]},
        {"metric": "auroc", "a": None, "b": 0.75, "difference": None, "interval": None},
    ]
    rows = [{"note": "undefined for A", **row} for row in differences]
    one_by_one = {"sentence": "Recording by recording, none of 4 verdicts differs."}
    text = comparison_text(
        {
            "differences": rows,
            "names": ["old", "new"],
            "sentence": "new [is not] better.",
            "recordings": one_by_one,
        }
    )
    cells = rows_of(text)
    assert cells["f1"] == ["0.5000", "0.7500", "0.2500", "[-0.100, +0.600]"]
    assert cells["auroc"] == ["n/a", "0.7500", "n/a", "undefined for A"]
    assert text.splitlines()[-2:] == ["new [is not] better.", one_by_one["sentence"]]


def test_protocols_have_the_network_and_every_baseline_of_any_of_them() -> None:
    def protocol(*keys: str) -> dict[str, Any]:
        baselines = [
            {"key": key, "name": key, "auroc": 0.5, "interval": [0.4, 0.6]} for key in keys
        ]
        return {
            "recording": table(),
            "coverage": COVERAGE,
            "audit": {"rows": baselines, "findings": [f"{keys[0]} leaks"]},
        }

    text = protocols_text({"pipes": protocol("level"), "days": protocol("hum")})
    rows = rows_of(text)
    assert rows["recordings (leaks)"] == ["9 (5)"] * 2
    assert rows["AUROC of the network"] == ["0.88", "0.88"]
    assert rows["AUROC of level"] == ["0.50", "n/a"]
    assert rows["AUROC of hum"] == ["n/a", "0.50"]
    assert text.splitlines()[:2] == ["pipes: level leaks", "days: hum leaks"]


def test_metrics_of_met_recordings_stand_under_a_title_that_says_so() -> None:
    splits = {"test": {"recording": table(), "coverage": COVERAGE, "groups": GROUPS}}
    title = metrics_text(splits, DecisionRule(), all_met=True).splitlines()[0]
    assert "met in training" in title
    assert metrics_text(splits, DecisionRule()).splitlines()[0].strip().startswith("Recordings (95")
