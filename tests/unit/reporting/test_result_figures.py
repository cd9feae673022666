import numpy as np
import pytest
from matplotlib.patches import Rectangle

from leakdet.evaluation.metrics_json import split_metrics
from leakdet.reporting import result_figures as figures
from leakdet.reporting.result_figures import HEADINGS, result_figures


@pytest.fixture
def tables(scored):
    return split_metrics(scored(), 20)


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_every_figure_names_what_it_shows_and_of_which_split(tables):
    drawn = result_figures(tables, 0.5, "40 test recordings")
    assert drawn.keys() == HEADINGS.keys()
    for name, figure in drawn.items():
        assert figure.get_suptitle() == f"{HEADINGS[name]}\n40 test recordings"
        figure.draw_without_rendering()
        (title,) = figure.texts
        box = title.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= figure.bbox.width
        assert not any(axes.get_legend() for axes in figure.axes)  # would cover curves
    assert not any(figure.get_suptitle() for figure in result_figures(tables, 0.5).values())


def test_one_class_has_no_curves(scored):
    tables = split_metrics(scored(8, leaks=True), 20)
    assert not result_figures(tables, 0.5).keys() & {"roc", "precision_recall"}


@pytest.mark.parametrize("threshold", [0.5, None])
def test_curves_show_the_operating_point_and_guessing(tables, threshold):
    table = tables["recording"]
    drawn = result_figures(tables, threshold)
    point = "at each fold's own threshold" if threshold is None else "at the threshold"
    name = f"average precision {table['average_precision']:.3f}"
    assert legend_of(drawn["roc"]) == ["guessing", f"AUROC {table['auroc']:.3f}", point]
    assert legend_of(drawn["precision_recall"]) == ["guessing", name, point]
    at = drawn["roc"].axes[0].lines[-1].get_xydata()[0].tolist()
    assert at == [table["fpr"], table["recall"]]


def test_precision_without_an_alarm_has_no_operating_point(tables):
    table = tables["recording"] | {"precision": None}
    drawn = figures.precision_recall(tables["curves"]["precision_recall"], table)
    assert "at the threshold" not in legend_of(drawn)


def test_calibration_is_compared_with_a_perfect_one(tables):
    (axes,) = figures.reliability(tables["curves"]["reliability"]).axes
    assert axes.lines[0].get_xydata().tolist() == [[0, 0], [1, 1]]
    shares = [row["leak_share"] for row in tables["curves"]["reliability"]]
    assert axes.lines[1].get_ydata().tolist() == shares


def test_a_confusion_matrix_has_true_in_rows():
    axes = figures.confusion({"tn": 1, "fp": 2, "fn": 3, "tp": 4}).axes[0]
    cells = {text.get_position(): text.get_text() for text in axes.texts}
    assert cells == {(0, 0): "1", (1, 0): "2", (0, 1): "3", (1, 1): "4"}


def test_the_histogram_counts_every_recording_and_hatches_wrong_verdicts():
    histogram = {
        "edges": [0.0, 0.25, 0.5, 0.75, 1.0],
        "leak": [1, 0, 0, 2],
        "no_leak": [3, 0, 1, 0],
    }
    upper, lower = figures.score_histogram(histogram, 0.5).axes
    for axes, key, hatched in ((upper, "leak", [0, 1]), (lower, "no_leak", [2, 3])):
        bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        assert [bar.get_height() for bar in bars] == histogram[key]
        assert [place for place, bar in enumerate(bars) if bar.get_hatch()] == hatched
    plain = figures.score_histogram(histogram, None)
    assert not any(bar.get_hatch() for bar in plain.axes[0].patches)


def test_wrong_verdicts_of_a_confusion_matrix_of_zeros_can_be_drawn():
    figure = figures.confusion(dict.fromkeys(("tn", "fp", "fn", "tp"), 0))
    figure.draw_without_rendering()
    assert np.isfinite(figure.axes[0].images[0].get_clim()).all()
