import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from leakdet.evaluation.metrics_json import split_metrics
from leakdet.reporting import figures


@pytest.fixture
def tables(scored):
    return split_metrics(scored(), 20)


def texts(svg: str) -> str:
    return " ".join(element.text or "" for element in ET.fromstring(svg).iter())


@pytest.mark.parametrize("one_threshold", [True, False])
def test_curves_show_the_operating_point_and_guessing(tables, one_threshold):
    table, curves = tables["recording"], tables["curves"]
    roc = figures.roc_figure(curves["roc"], table, one_threshold)
    pr = figures.precision_recall_figure(curves["precision_recall"], table, one_threshold)
    point = "at the threshold" if one_threshold else "at each fold's own threshold"
    for svg in (roc, pr):
        assert "guessing" in texts(svg)
        assert point in texts(svg)
    assert f"AUROC {table['auroc']:.3f}" in texts(roc)
    assert f"average precision {table['average_precision']:.3f}" in texts(pr)


def test_precision_without_an_alarm_has_no_operating_point(tables):
    table = tables["recording"] | {"precision": None}
    points = tables["curves"]["precision_recall"]
    assert "at the threshold" not in texts(figures.precision_recall_figure(points, table, True))


def test_bars_on_the_wrong_side_of_the_threshold_are_hatched(tables):
    histogram = tables["curves"]["histogram"]
    assert "pattern" not in figures.histogram_figure(histogram, None)
    assert "<pattern" in figures.histogram_figure(histogram, 0.5)
    assert "hatched: wrong verdicts" in texts(figures.histogram_figure(histogram, 0.5))


def test_calibration_is_compared_with_a_perfect_one(tables):
    shown = texts(figures.reliability_figure(tables["curves"]["reliability"]))
    assert "perfect calibration" in shown
    assert "predicted leak probability" in shown


def test_the_epoch_kept_is_marked(tables):
    history = {"epoch": np.arange(3.0), "val/loss": np.array([3.0, np.nan, 1.0])}
    assert "dotted" in texts(figures.learning_figure(history, 1))
    assert "dotted" not in texts(figures.learning_figure(history, None))


def test_an_svg_is_described_and_has_no_id_that_nothing_uses(tables):
    svg = figures.reliability_figure(tables["curves"]["reliability"])
    root = ET.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"].startswith("Reliability")
    ids = set(re.findall(r' id="([\w-]+)"', svg))
    assert ids <= set(re.findall(r"#([\w-]+)", svg))
    assert "<metadata" not in svg
    assert svg == figures.reliability_figure(tables["curves"]["reliability"])  # reproducible
