"""The look of all figures, and how they are written: inline SVG for pages, PNG for folders."""

import io
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread, imsave

from leakdet.storage.atomic import whole_file

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
