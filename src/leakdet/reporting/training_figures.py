"""Figures of a training as PNG and as pixels: learning curve, scores, gradient norms …"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

SIZE_IN = (6.4, 4.0)
LEAK, QUIET, GREY = "#c2410c", "#1d6fa5", "#6b7280"
TRAIN, VAL = QUIET, LEAK


def read_history(path: Path) -> dict[str, np.ndarray]:
    """Columns of a run's history.csv, one value per validation check, NaN if not measured."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        name: np.array([float(row[name] or "nan") for row in rows])
        for name in (rows[0] if rows else {})
    }


def learning_curve(
    history: Mapping[str, Sequence[float] | np.ndarray],
    best_epoch: int | None = None,
    size_in: tuple[float, float] = (6.4, 5.6),
) -> Figure:
    """Losses above, recording F1 and AUROC below, over epochs; `best_epoch`, from 0, is marked."""
    figure = Figure(size_in, layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    _curve(upper, history, "train/loss", "train loss", TRAIN, "-")
    _curve(upper, history, "val/loss", "val loss", VAL, "--")
    _curve(lower, history, "val/recording_f1", "F1", VAL, "-")
    _curve(lower, history, "val/recording_auroc", "AUROC", GREY, ":")
    for axes in (upper, lower):
        if axes.lines:
            axes.legend(loc="best")
        if best_epoch is not None:
            axes.axvline(best_epoch + 1, color="black", linewidth=1, linestyle=":")
    upper.set_ylabel("loss")
    marked = "" if best_epoch is None else " (dotted: the weights that were kept)"
    lower.set(xlabel=f"epoch{marked}", ylabel="val recordings", ylim=(-0.02, 1.02))
    _whole_epochs(lower)
    return figure


def _curve(
    axes: Axes,
    history: Mapping[str, Sequence[float] | np.ndarray],
    column: str,
    label: str,
    colour: str,
    line: str,
) -> None:
    """Draw a column over epochs; checks that did not measure it are skipped."""
    epoch = np.asarray(history["epoch"]) + 1
    value = np.asarray(history.get(column, np.full(len(epoch), np.nan)))
    measured = np.isfinite(epoch) & np.isfinite(value)
    if measured.any():
        axes.plot(
            epoch[measured], value[measured], color=colour, linestyle=line, marker=".", label=label
        )


def _whole_epochs(axes: Axes) -> None:
    """Put ticks at whole epochs, even where there is only one."""
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.5), high)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def confusion(tn: int, fp: int, fn: int, tp: int) -> Figure:
    """Confusion matrix; rows are true, columns predicted."""
    figure = Figure((4.2, 3.6), layout="constrained")
    axes = figure.subplots()
    cells = np.array([[tn, fp], [fn, tp]])
    axes.imshow(cells, cmap="Blues", vmin=0)
    for (row, column), count in np.ndenumerate(cells):
        dark = count > cells.max() / 2
        axes.text(
            column,
            row,
            str(count),
            ha="center",
            va="center",
            fontsize=16,
            color="white" if dark else "black",
        )
    names = ["no leak", "leak"]
    axes.set(
        xticks=[0, 1],
        yticks=[0, 1],
        xticklabels=names,
        yticklabels=names,
        xlabel="predicted",
        ylabel="true",
    )
    return figure


def score_histogram(
    histogram: Mapping[str, Sequence[float]],
    threshold: float | None,
    size_in: tuple[float, float] = SIZE_IN,
) -> Figure:
    """Scores of leaks above, of the rest below; hatched on the wrong side of a single threshold."""
    figure = Figure(size_in, layout="constrained")
    upper, lower = figure.subplots(2, sharex=True)
    edges = np.asarray(histogram["edges"])
    width = edges[1] - edges[0]
    rows = ((upper, "leak", LEAK, "with a leak"), (lower, "no_leak", QUIET, "without"))
    for axes, key, colour, name in rows:
        bars = axes.bar(
            edges[:-1], histogram[key], width, align="edge", color=colour, edgecolor="white"
        )
        axes.set_ylabel(name)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        if threshold is None:
            continue
        axes.axvline(threshold, color="black", linewidth=1.5)
        for bar, middle in zip(bars, edges[:-1] + width / 2, strict=True):
            if (middle < threshold) == (key == "leak"):
                bar.set(facecolor="white", edgecolor=colour, hatch="////")
    lower.set(xlabel="score of a recording", xlim=(0, 1))
    if threshold is not None:
        upper.set_title(f"threshold {threshold:.2f}; hatched: wrong verdicts", fontsize=11)
    return figure


def probability_bins(history: Mapping[str, np.ndarray]) -> Figure:
    """Distribution of the validation samples' leak probabilities at each check."""
    shares = np.stack([history[f"val/leak_prob_bin{number}"] for number in range(10)])
    figure = Figure(SIZE_IN, layout="constrained")
    axes = figure.subplots()
    checks = shares.shape[1]
    extent = (0.5, checks + 0.5, 0.0, 1.0)
    image = axes.imshow(
        shares,
        cmap="Blues",
        vmin=0,
        vmax=1,
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        extent=extent,
    )
    figure.colorbar(image, ax=axes, label="share of the samples")
    axes.set(xlabel="validation check", ylabel="leak_prob of the sample")
    _whole_epochs(axes)
    return figure


def gradient_norms(history: Mapping[str, Sequence[float] | np.ndarray]) -> Figure:
    """Mean and largest gradient norm of each epoch's steps, before clipping."""
    figure = Figure(SIZE_IN, layout="constrained")
    axes = figure.subplots()
    epoch = np.asarray(history["epoch"]) + 1
    axes.plot(epoch, history["gradient/norm_mean"], color=TRAIN, marker=".", label="mean")
    axes.plot(epoch, history["gradient/norm_max"], color=GREY, marker=".", label="largest")
    axes.set(xlabel="epoch", ylabel="gradient norm", yscale="log")
    _whole_epochs(axes)
    axes.legend()
    return figure


def rate_finder(path: Path) -> Figure:
    """Loss over the rising learning rate of `find_lr`, from its lr_finder.csv."""
    trace = np.genfromtxt(path, delimiter=",", names=True)
    figure = Figure(SIZE_IN, layout="constrained")
    axes = figure.subplots()
    axes.plot(trace["lr"], trace["loss"], color=GREY, linewidth=0.8, label="loss")
    axes.plot(trace["lr"], trace["smoothed"], color=TRAIN, label="smoothed")
    for rate in trace["lr"][trace["chosen"] == 1]:
        axes.axvline(rate, color=LEAK, linestyle="--", label=f"chosen: {rate:.2g}")
    axes.set(xlabel="learning rate", ylabel="loss", xscale="log")
    axes.legend()
    return figure


def batch_size_finder(path: Path) -> Figure:
    """Samples per second over batch size, from the batch_size_finder.csv of `find_batch_size`."""
    trace = np.atleast_1d(np.genfromtxt(path, delimiter=",", names=True))
    figure = Figure(SIZE_IN, layout="constrained")
    axes = figure.subplots()
    axes.plot(trace["batch_size"], trace["samples_per_s"], color=TRAIN, marker=".")
    for size in trace["batch_size"][trace["chosen"] == 1]:
        axes.axvline(size, color=LEAK, linestyle="--", label=f"chosen: {size:.0f}")
    axes.set(xlabel="batch size", ylabel="samples per second", ylim=(0, None))
    axes.set_xscale("log", base=2)
    axes.legend()
    return figure


def write_training_figures(
    history: Mapping[str, np.ndarray], metrics: Mapping[str, Any], folder: Path
) -> dict[str, np.ndarray]:
    """Write PNGs into `folder` and return their pixels by name, uint8 [height, width, 3].

    `metrics` is the content of metrics.json, from which the validation recordings are drawn.
    """
    val, threshold = metrics["val"], metrics["decision_rule"]["threshold"]
    figures = {
        "learning_curve": learning_curve(history),
        "confusion": confusion(*(val["recording"][cell] for cell in ("tn", "fp", "fn", "tp"))),
        "leak_prob": score_histogram(val["curves"]["histogram"], threshold),
    }
    if "val/leak_prob_bin0" in history:  # absent in runs that an earlier version began
        figures["leak_prob_checks"] = probability_bins(history)
    if np.isfinite(history.get("gradient/norm_mean", np.array([np.nan]))).any():
        figures["gradient_norms"] = gradient_norms(history)
    for name, draw in (("lr_finder", rate_finder), ("batch_size_finder", batch_size_finder)):
        if (folder.parent / f"{name}.csv").exists():
            figures[name] = draw(folder.parent / f"{name}.csv")
    folder.mkdir(parents=True, exist_ok=True)
    pixels = {}
    for name, figure in figures.items():
        canvas = FigureCanvasAgg(figure)
        figure.savefig(folder / f"{name}.png", dpi=110)
        canvas.draw()  # type: ignore[no-untyped-call]
        rgba = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
        pixels[name] = rgba[..., :3].copy()
    return pixels
