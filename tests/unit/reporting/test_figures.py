import re
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from leakdet.evaluation.metrics_json import split_metrics
from leakdet.reporting import figures
from leakdet.reporting.figures import (
    CSS_NAMES,
    HEADINGS,
    INK,
    QUIET,
    STYLE,
    add_legend,
    new_figure,
    read_pngs,
    result_figures,
    svg,
    write_pngs,
)


@pytest.fixture
def figure() -> Figure:
    with mpl.rc_context(STYLE):
        figure = new_figure("Losses: 12 test recordings")
        upper, lower = figure.subplots(2)
        for axes, name in ((upper, "train"), (lower, "val"), (lower, "train")):
            axes.plot([0, 1], [0, 1], color=QUIET, label=name)
        add_legend(figure)
    return figure


def test_a_legend_stands_below_all_axes_and_names_each_curve_once(figure: Figure) -> None:
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["train", "val"]
    bottom = min(axes.get_tightbbox().y0 for axes in figure.axes)
    assert legend.get_window_extent().y1 <= bottom + 1


def test_an_svg_has_real_text_and_the_colours_of_the_page(figure: Figure) -> None:
    text = svg(figure, "Losses <of> test")
    root = ET.fromstring(text)
    assert (root.attrib["role"], root.attrib["aria-label"]) == ("img", "Losses <of> test")
    assert "Losses: 12 test recordings" in [element.text for element in root.iter()]
    assert "var(--quiet)" in text
    assert "var(--ink)" in text
    assert not any(colour in text for colour in CSS_NAMES)
    assert "<metadata" not in text
    assert set(re.findall(r' id="([\w-]+)"', text)) <= set(re.findall(r"#([\w-]+)", text))
    clips = re.compile(r"\bp[0-9a-f]{10}\b")  # whose names matplotlib 3.10 draws anew
    again = svg(figure, "Losses <of> test")
    assert clips.sub("", text) == clips.sub("", again)  # reproducible


def test_the_page_gives_every_colour_of_a_figure_in_both_schemes() -> None:
    folder = Path(figures.__file__).parent
    style = (folder / "page" / "report.css").read_text(encoding="utf-8")
    for name in CSS_NAMES.values():
        assert style.count(f"--{name}:") == 2  # in the light scheme and in the dark one


def test_pngs_are_whole_and_named(figure: Figure, tmp_path: Path) -> None:
    write_pngs({"losses": figure}, tmp_path / "figures")
    ((name, pixels),) = read_pngs(tmp_path / "figures").items()
    assert name == "losses"
    assert pixels.shape == (484, 704, 3)
    ink = np.array([int(INK[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    assert (abs(pixels[:60] - ink).max(axis=2) < 0.1).any()  # the title


def test_a_figure_that_could_not_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pngs({"curve": Figure()}, tmp_path)
    before = (tmp_path / "curve.png").read_bytes()

    def full(path: Path, *_: object, **__: object) -> None:
        path.write_bytes(before[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figures, "imsave", full)
    with pytest.raises(OSError, match="No space"):
        write_pngs({"curve": Figure()}, tmp_path)
    assert (tmp_path / "curve.png").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["curve.png"]


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
    assert cells == {(0, 0): "4", (1, 0): "3", (0, 1): "2", (1, 1): "1"}  # leaks first


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
