"""Figures of a training: learning curve, confusion matrix, probabilities, gradient norms; as PNG and as pixels."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

SIZE_IN = (6.4, 4.0)
TRAIN, VAL, LEAK, REST = "#1b6ca8", "#c8553d", "#c8553d", "#7a8b99"


def read_history(path: Path) -> dict[str, np.ndarray]:
    """Column -> [checks] of a run's history.csv; what a check did not measure is NaN."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        name: np.array([float(row[name] or "nan") for row in rows])
        for name in (rows[0] if rows else {})
    }


def learning_curve(history: Mapping[str, Sequence[float] | np.ndarray]) -> Figure:
    """Losses above, recording F1 and AUROC below, over epochs."""
    figure = Figure((SIZE_IN[0], 5.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    epoch = np.asarray(history["epoch"]) + 1
    upper.plot(epoch, history["train/loss"], color=TRAIN, marker=".", label="train")
    upper.plot(epoch, history["val/loss"], color=VAL, marker=".", label="val")
    upper.set_ylabel("loss")
    upper.legend()
    lower.plot(epoch, history["val/recording_f1"], color=VAL, marker=".", label="recording F1")
    if "val/recording_auroc" in history:
        lower.plot(
            epoch, history["val/recording_auroc"], color=REST, marker=".", label="recording AUROC"
        )
    lower.set(xlabel="epoch", ylabel="val", ylim=(-0.02, 1.02))
    _whole_epochs(lower)
    lower.legend(loc="lower right")
    return figure


def _whole_epochs(axes: Axes) -> None:
    """Ticks at whole epochs, also where there is one only."""
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.5), high)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def confusion(tn: int, fp: int, fn: int, tp: int) -> Figure:
    """Rows are true, columns predicted."""
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


def probabilities(
    scores: Float[np.ndarray, " R"], is_leak: Bool[np.ndarray, " R"], threshold: float
) -> Figure:
    """Recording scores of leaks and of the rest, with the threshold."""
    figure = Figure(SIZE_IN, layout="constrained")
    axes = figure.subplots()
    bins = np.linspace(0, 1, 21).tolist()
    axes.hist(
        [scores[~is_leak], scores[is_leak]],
        bins,
        label=["no leak", "leak"],
        color=[REST, LEAK],
        stacked=True,
    )
    axes.axvline(
        threshold, color="black", linestyle="--", linewidth=1, label=f"threshold {threshold:.3f}"
    )
    axes.set(xlabel="leak_prob of the recording", ylabel="recordings", xlim=(0, 1))
    axes.legend()
    return figure


def probability_bins(history: Mapping[str, np.ndarray]) -> Figure:
    """How the leak probabilities of the validation samples spread, check after check: a network that says the same of
    everything has all of them in one row.
    """
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
    """Mean and largest norm of each epoch's steps, before clipping."""
    figure = Figure(SIZE_IN, layout="constrained")
    axes = figure.subplots()
    epoch = np.asarray(history["epoch"]) + 1
    axes.plot(epoch, history["gradient/norm_mean"], color=TRAIN, marker=".", label="mean")
    axes.plot(epoch, history["gradient/norm_max"], color=REST, marker=".", label="largest")
    axes.set(xlabel="epoch", ylabel="gradient norm", yscale="log")
    _whole_epochs(axes)
    axes.legend()
    return figure


def rate_finder(path: Path) -> Figure:
    """Loss over the rising learning rate of `find_lr`, from its lr_finder.csv."""
    found = np.genfromtxt(path, delimiter=",", names=True)
    figure = Figure(SIZE_IN, layout="constrained")
    axes = figure.subplots()
    axes.plot(found["lr"], found["loss"], color=REST, linewidth=0.8, label="loss")
    axes.plot(found["lr"], found["smoothed"], color=TRAIN, label="smoothed")
    for rate in found["lr"][found["chosen"] == 1]:
        axes.axvline(rate, color=LEAK, linestyle="--", label=f"chosen: {rate:.2g}")
    axes.set(xlabel="learning rate", ylabel="loss", xscale="log")
    axes.legend()
    return figure


def batch_size_finder(path: Path) -> Figure:
    """Samples per second over the batch sizes that `find_batch_size` tried, from its batch_size_finder.csv."""
    found = np.atleast_1d(np.genfromtxt(path, delimiter=",", names=True))
    figure = Figure(SIZE_IN, layout="constrained")
    axes = figure.subplots()
    axes.plot(found["batch_size"], found["samples_per_s"], color=TRAIN, marker=".")
    for size in found["batch_size"][found["chosen"] == 1]:
        axes.axvline(size, color=LEAK, linestyle="--", label=f"chosen: {size:.0f}")
    axes.set(xlabel="batch size", ylabel="samples per second", ylim=(0, None))
    axes.set_xscale("log", base=2)
    axes.legend()
    return figure


def write_training_figures(
    history: Mapping[str, np.ndarray],
    cells: tuple[int, int, int, int],
    scores: Float[np.ndarray, " R"],
    is_leak: Bool[np.ndarray, " R"],
    threshold: float,
    folder: Path,
) -> dict[str, np.ndarray]:
    """Write the PNGs into `folder` and give their pixels, name -> uint8 [height, width, 3]."""
    figures = {
        "learning_curve": learning_curve(history),
        "confusion": confusion(*cells),
        "leak_prob": probabilities(scores, is_leak, threshold),
    }
    if "val/leak_prob_bin0" in history:  # a run that an earlier version began has none
        figures["leak_prob_checks"] = probability_bins(history)
    if np.isfinite(history.get("gradient/norm_mean", np.array([np.nan]))).any():
        figures["gradient_norms"] = gradient_norms(history)
    for name, draw in (("lr_finder", rate_finder), ("batch_size_finder", batch_size_finder)):
        if (folder.parent / f"{name}.csv").exists():
            figures[name] = draw(folder.parent / f"{name}.csv")
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, figure in figures.items():
        canvas = FigureCanvasAgg(figure)
        figure.savefig(folder / f"{name}.png", dpi=110)
        canvas.draw()  # type: ignore[no-untyped-call]
        pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
        found[name] = pixels[..., :3].copy()
    return found
