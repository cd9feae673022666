import re
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from leakdet.reporting import figure_style
from leakdet.reporting.figure_style import (
    CSS_NAMES,
    INK,
    QUIET,
    STYLE,
    add_legend,
    new_figure,
    read_pngs,
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
    folder = Path(figure_style.__file__).parent
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

    monkeypatch.setattr(figure_style, "imsave", full)
    with pytest.raises(OSError, match="No space"):
        write_pngs({"curve": Figure()}, tmp_path)
    assert (tmp_path / "curve.png").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["curve.png"]
