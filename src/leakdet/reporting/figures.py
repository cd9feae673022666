"""Figures of results, and the style that all figures share."""

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread, imsave
from matplotlib.ticker import MaxNLocator

from leakdet.core.files import whole_file

INK, LEAK, QUIET, GREY, GRID, PAGE = (
    "#1f2937", "#c2410c", "#1d6fa5", "#6b7280", "#e5e7eb", "#ffffff",
)  # fmt: skip
# The page's names for these colours, which differ in its dark scheme.
CSS_NAMES = {
    INK: "ink", LEAK: "leak", QUIET: "quiet", GREY: "soft", GRID: "grid", PAGE: "page",
}  # fmt: skip
SIZE_IN = (6.4, 4.4)
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "leakdet",
    "font.size": 11,
    "figure.titlesize": 12,
    "text.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "grid.color": GRID,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "hatch.linewidth": 0.7,
}


def new_figure(title: str | None, size_in: tuple[float, float] = SIZE_IN) -> Figure:
    """An empty figure; `title` names what is shown and of which split."""
    figure = Figure(size_in, layout="constrained")
    if title:
        figure.suptitle(title)
    return figure


def add_legend(figure: Figure) -> None:
    """One legend for all axes, below them, where it covers no curve."""
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    columns = 2 if len("".join(entries)) > 36 else len(entries)
    figure.legend(
        list(entries.values()), list(entries), loc="outside lower center", ncols=max(1, columns)
    )


def svg(figure: Figure, description: str) -> str:
    """The figure as a described <svg> element in the colours of the page's scheme.

    Unused ids are removed, since figures share a page.
    """
    file = io.StringIO()
    with mpl.rc_context(STYLE):
        metadata = {"Date": None, "Creator": None}
        figure.savefig(file, format="svg", metadata=metadata, transparent=True)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    used = set(re.findall(r"#([\w-]+)", text))
    text = re.sub(r' id="([\w-]+)"', lambda match: match[0] if match[1] in used else "", text)
    text = re.sub(r"<style[^>]*>.*?</style>", "", text, flags=re.DOTALL)
    for colour, name in CSS_NAMES.items():
        text = text.replace(colour, f"var(--{name})")
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)


def write_pngs(figures: Mapping[str, Figure], folder: Path) -> None:
    """Write each figure into `folder` as NAME.png, for screens and print on white paper."""
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        for name, figure in figures.items():
            figure.set_dpi(110)
            canvas = FigureCanvasAgg(figure)
            canvas.draw()  # type: ignore[no-untyped-call]
            pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
            with whole_file(folder / f"{name}.png") as partial:
                imsave(partial, pixels, format="png")


def read_pngs(folder: Path) -> dict[str, Float[np.ndarray, "height width 3"]]:
    """The figures of a folder by name, in [0, 1]."""
    return {path.stem: imread(path)[..., :3] for path in sorted(folder.glob("*.png"))}


DASHED = (0, (4, 4))
SQUARE_IN = (4.8, 4.8)
# How a reader is to take each figure; the keys are the names of the files.
HEADINGS = {
    "roc": "Leaks found against false alarms (ROC)",
    "precision_recall": "Precision against leaks found",
    "leak_prob": "Scores",
    "risk_coverage": "Error against share decided",
    "reliability": "Calibration",
    "confusion": "Confusion matrix",
}


def result_figures(
    tables: Mapping[str, Any],
    threshold: float | None,
    judged_on: str | None = None,
    size_in: tuple[float, float] | None = None,
) -> dict[str, Figure]:
    """Figures of a split by name, those of `HEADINGS` that its recordings allow.

    `tables` is the split's entry of metrics.json; `threshold` is None where folds have their own.
    With `judged_on`, as "the test recordings", each figure has a title.
    """

    def title(name: str) -> str | None:
        return None if judged_on is None else f"{HEADINGS[name]}\n{judged_on}"

    curves, table = tables["curves"], tables["recording"]
    square, wide = size_in or SQUARE_IN, size_in or SIZE_IN
    with mpl.rc_context(STYLE):
        figures = {}
        if curves["roc"] is not None:
            one = threshold is not None
            figures["roc"] = roc(curves["roc"], table, one, title("roc"), square)
            figures["precision_recall"] = precision_recall(
                curves["precision_recall"], table, one, title("precision_recall"), square
            )
        name = "leak_prob"
        figures[name] = score_histogram(curves["histogram"], threshold, title(name), wide)
        if curves["risk_coverage"] is not None:
            name = "risk_coverage"
            figures[name] = risk_coverage(
                curves["risk_coverage"], tables["coverage"], title(name), square
            )
        if curves["reliability"]:
            name = "reliability"
            figures[name] = reliability(curves["reliability"], title(name), square)
        figures["confusion"] = confusion(table, title("confusion"))
        return figures


def roc(
    points: Sequence[Sequence[float]],
    table: Mapping[str, Any],
    one_threshold: bool = True,
    title: str | None = None,
    size_in: tuple[float, float] = SQUARE_IN,
) -> Figure:
    """ROC curve with the operating point, which may lie off the curve with thresholds per fold."""
    figure = new_figure(title, size_in)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=DASHED, label="guessing")
    x, y = zip(*points, strict=True)
    axes.plot(x, y, color=QUIET, linewidth=2, label=f"AUROC {table['auroc']:.3f}")
    _operating_point(axes, table["fpr"], table["recall"], one_threshold)
    axes.set(xlabel="false alarm rate (FPR)", ylabel="leaks found (TPR)")
    return _unit_square(figure)


def precision_recall(
    points: Sequence[Sequence[float]],
    table: Mapping[str, Any],
    one_threshold: bool = True,
    title: str | None = None,
    size_in: tuple[float, float] = SQUARE_IN,
) -> Figure:
    """Precision over recall with the operating point; guessing gives the share of leaks."""
    figure = new_figure(title, size_in)
    axes = figure.subplots()
    base = table["positives"] / table["n"]
    axes.axhline(base, color=GREY, linewidth=1, linestyle=DASHED, label="guessing")
    x, y = zip(*points, strict=True)
    name = f"average precision {table['average_precision']:.3f}"
    axes.plot(x, y, color=QUIET, linewidth=2, label=name)
    if table["precision"] is not None:
        _operating_point(axes, table["recall"], table["precision"], one_threshold)
    axes.set(xlabel="leaks found (recall)", ylabel="alarms that are leaks (precision)")
    return _unit_square(figure)


def risk_coverage(
    points: Sequence[Sequence[float]],
    coverage: Mapping[str, Any],
    title: str | None = None,
    size_in: tuple[float, float] = SQUARE_IN,
) -> Figure:
    """Error of what is decided over the share decided, with what predict leaves undecided."""
    figure = new_figure(title, size_in)
    axes = figure.subplots()
    x, y = zip(*points, strict=True)
    axes.plot(x, y, color=QUIET, linewidth=2, label="nearest the threshold undecided")
    if coverage["wrong_of_decided"] is not None:
        decided, wrong = coverage["share_decided"], coverage["wrong_of_decided"]
        _point(axes, decided, wrong, "as predict decides")
    axes.set(xlabel="share of the recordings decided", ylabel="share of these that is wrong")
    top = max(0.05, *y, coverage["wrong_of_decided"] or 0.0)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02 * top, 1.05 * top))
    add_legend(figure)
    return figure


def _operating_point(axes: Axes, x: float, y: float, one_threshold: bool) -> None:
    name = "at the threshold" if one_threshold else "at each fold's own threshold"
    _point(axes, x, y, name)


def _point(axes: Axes, x: float, y: float, name: str) -> None:
    axes.plot(
        [x], [y], marker="o", markersize=9, color=LEAK, linestyle="none", label=name, zorder=5
    )


def _unit_square(figure: Figure) -> Figure:
    figure.axes[0].set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    add_legend(figure)
    return figure


def reliability(
    bins: Sequence[Mapping[str, Any]],
    title: str | None = None,
    size_in: tuple[float, float] = SQUARE_IN,
) -> Figure:
    """Share of leaks over the predicted leak probability, with Wilson intervals."""
    figure = new_figure(title, size_in)
    axes = figure.subplots()
    name = "perfect calibration"
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=DASHED, label=name)
    share = np.array([row["leak_share"] for row in bins])
    low, high = np.array([row["interval"] for row in bins]).T
    axes.errorbar(
        [row["mean_prob"] for row in bins],
        share,
        yerr=np.clip([share - low, high - share], 0.0, None),
        fmt="o-",
        color=QUIET,
        ecolor=GREY,
        capsize=3,
        label="recordings (95 % interval)",
    )
    axes.set(xlabel="predicted leak probability", ylabel="share that has a leak")
    return _unit_square(figure)


def score_histogram(
    histogram: Mapping[str, Sequence[float]],
    threshold: float | None,
    title: str | None = None,
    size_in: tuple[float, float] = SIZE_IN,
) -> Figure:
    """Scores of leaks above, of the rest below; hatched on the wrong side of a single threshold."""
    figure = new_figure(title, size_in)
    upper, lower = figure.subplots(2, sharex=True)
    edges = np.asarray(histogram["edges"])
    width = edges[1] - edges[0]
    rows = ((upper, "leak", LEAK, "with a leak"), (lower, "no_leak", QUIET, "without"))
    for axes, key, colour, name in rows:
        bars = axes.bar(
            edges[:-1], histogram[key], width, align="edge", color=colour, edgecolor=PAGE
        )
        axes.set_ylabel(name)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        if threshold is None:
            continue
        axes.axvline(threshold, color=INK, linewidth=1.5)
        for bar, middle in zip(bars, edges[:-1] + width / 2, strict=True):
            if (middle < threshold) == (key == "leak"):
                bar.set(facecolor=PAGE, edgecolor=colour, hatch="////")
    lower.set(xlabel="score of a recording", xlim=(0, 1))
    if threshold is not None:
        upper.set_title(f"threshold {threshold:.2f}; hatched: on the wrong side", fontsize=11)
    return figure


def confusion(table: Mapping[str, Any], title: str | None = None) -> Figure:
    """Confusion matrix of the counts `tp fn fp tn`; true in rows, leaks first."""
    figure = new_figure(title, SQUARE_IN)
    axes = figure.subplots()
    axes.grid(visible=False)
    cells = np.array([[table["tp"], table["fn"]], [table["fp"], table["tn"]]])
    axes.imshow(cells, cmap="Blues", vmin=0, vmax=max(1, cells.max()))
    for (row, column), count in np.ndenumerate(cells):
        colour = PAGE if count > cells.max() / 2 else INK
        axes.text(column, row, str(count), ha="center", va="center", fontsize=16, color=colour)
    names = ["leak", "no leak"]
    axes.set(
        xticks=[0, 1],
        yticks=[0, 1],
        xticklabels=names,
        yticklabels=names,
        xlabel="predicted",
        ylabel="true",
    )
    return figure
