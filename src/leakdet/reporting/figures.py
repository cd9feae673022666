"""The report's figures as inline SVG with real text: sharp, small, readable by a screen reader."""

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leakdet.reporting.training_figures import (
    GREY,
    LEAK,
    QUIET,
    learning_curve,
    score_histogram,
)

SVG_SIZE_IN = (4.6, 3.6)

INK = "#1f2937"
LegendPlace = Literal["lower left", "lower right", "upper left"]
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "leakdet",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "grid.color": "#e5e7eb",
    "axes.axisbelow": True,
    "legend.framealpha": 0.85,
    "legend.edgecolor": "white",
    "hatch.linewidth": 0.7,
}


def svg(figure: Figure, description: str) -> str:
    """The figure as a described <svg> element, without unused ids, since figures share a page."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    used = set(re.findall(r"#([\w-]+)", text))
    text = re.sub(r' id="([\w-]+)"', lambda match: match[0] if match[1] in used else "", text)
    text = re.sub(r"<style[^>]*>.*?</style>", "", text, flags=re.DOTALL)
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)


def _axes() -> tuple[Figure, Axes]:
    figure = Figure(figsize=SVG_SIZE_IN, layout="constrained")
    return figure, figure.add_subplot()


def roc_figure(
    points: Sequence[Sequence[float]], table: Mapping[str, Any], one_threshold: bool
) -> str:
    """ROC curve with the operating point, which may lie off the curve with thresholds per fold."""
    with mpl.rc_context(STYLE):
        figure, axes = _axes()
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=(0, (4, 4)), label="guessing")
        x, y = zip(*points, strict=True)
        axes.plot(x, y, color=QUIET, linewidth=2, label=f"AUROC {table['auroc']:.3f}")
        _operating_point(axes, table["fpr"], table["recall"], one_threshold)
        axes.set(xlabel="false alarm rate (FPR)", ylabel="leaks found (TPR)")
        _unit_square(axes, "lower right")
        return svg(
            figure,
            f"ROC curve. At the threshold TPR {table['recall']:.0%}, FPR {table['fpr']:.0%}.",
        )


def precision_recall_figure(
    points: Sequence[Sequence[float]], table: Mapping[str, Any], one_threshold: bool
) -> str:
    """Precision over recall with the operating point; guessing gives the share of leaks."""
    with mpl.rc_context(STYLE):
        figure, axes = _axes()
        base = table["positives"] / table["n"]
        axes.axhline(base, color=GREY, linewidth=1, linestyle=(0, (4, 4)), label="guessing")
        x, y = zip(*points, strict=True)
        axes.plot(
            x,
            y,
            color=QUIET,
            linewidth=2,
            label=f"average precision {table['average_precision']:.3f}",
        )
        if table["precision"] is not None:
            _operating_point(axes, table["recall"], table["precision"], one_threshold)
        axes.set(xlabel="leaks found (recall)", ylabel="alarms that are leaks (precision)")
        _unit_square(axes, "lower left")
        return svg(
            figure, f"Precision over recall. Average precision {table['average_precision']:.2f}."
        )


def _operating_point(axes: Axes, x: float, y: float, one_threshold: bool) -> None:
    name = "at the threshold" if one_threshold else "at each fold's own threshold"
    axes.plot(
        [x], [y], marker="o", markersize=9, color=LEAK, linestyle="none", label=name, zorder=5
    )


def _unit_square(axes: Axes, place: LegendPlace) -> None:
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    axes.legend(loc=place)


def histogram_figure(histogram: Mapping[str, Sequence[float]], threshold: float | None) -> str:
    """Scores of leaks and of the rest; hatched on the wrong side of a single threshold."""
    with mpl.rc_context(STYLE):
        figure = score_histogram(histogram, threshold, SVG_SIZE_IN)
        return svg(figure, "Histograms of the scores of recordings with and without a leak.")


def reliability_figure(bins: Sequence[Mapping[str, Any]]) -> str:
    """Share of leaks over the predicted leak probability, with Wilson intervals."""
    with mpl.rc_context(STYLE):
        figure, axes = _axes()
        axes.plot(
            [0, 1],
            [0, 1],
            color=GREY,
            linewidth=1,
            linestyle=(0, (4, 4)),
            label="perfect calibration",
        )
        x = [row["mean_prob"] for row in bins]
        y = [row["leak_share"] for row in bins]
        spread = [
            [row["leak_share"] - row["interval"][0] for row in bins],
            [row["interval"][1] - row["leak_share"] for row in bins],
        ]
        axes.errorbar(
            x, y, yerr=spread, fmt="o-", color=QUIET, ecolor=GREY, capsize=3, label="recordings"
        )
        axes.set(xlabel="predicted leak probability", ylabel="share that has a leak")
        _unit_square(axes, "upper left")
        return svg(figure, "Reliability: share of leaks over the predicted leak probability.")


def learning_figure(history: Mapping[str, np.ndarray], best_epoch: int | None) -> str:
    """Learning curves; the epoch whose weights were kept is marked."""
    with mpl.rc_context(STYLE):
        figure = learning_curve(history, best_epoch, SVG_SIZE_IN)
        return svg(figure, "Learning curves: losses and validation scores over the epochs.")
