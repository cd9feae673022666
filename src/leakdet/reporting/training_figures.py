"""Figures of how a training went: learning curves, gradient norms, the finders' traces …"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from leakdet.core.files import as_input_error
from leakdet.reporting.figures import (
    GREY,
    INK,
    LEAK,
    QUIET,
    STYLE,
    add_legend,
    new_figure,
    write_pngs,
)
from leakdet.tables.read import read_csv

HISTORY = "the history of a training"
TRAIN, VAL = QUIET, LEAK


def read_history(path: Path) -> dict[str, np.ndarray]:
    """Columns of a run's history.csv, one value per validation check, NaN if not measured."""
    rows = read_csv(path, HISTORY)
    with as_input_error(path, HISTORY):
        return {
            name: np.array([float(row[name] or "nan") for row in rows])
            for name in (rows[0] if rows else {})
        }


def learning_curve(
    history: Mapping[str, Sequence[float] | np.ndarray],
    best_epoch: int | None = None,
    title: str | None = None,
    size_in: tuple[float, float] = (6.4, 5.6),
) -> Figure:
    """Losses above, recording F1 and AUROC below, over epochs; `best_epoch`, from 0, is marked."""
    figure = new_figure(title, size_in)
    upper, lower = figure.subplots(2, 1, sharex=True)
    _curve(upper, history, "train/loss", "train loss", TRAIN, "-")
    _curve(upper, history, "val/loss", "val loss", VAL, "--")
    _curve(lower, history, "val/recording_f1", "F1", VAL, "-")
    _curve(lower, history, "val/recording_auroc", "AUROC", GREY, ":")
    for axes in (upper, lower):
        if best_epoch is not None:
            axes.axvline(best_epoch + 1, color=INK, linewidth=1, linestyle=":")
    upper.set_ylabel("loss")
    marked = "" if best_epoch is None else " (dotted: the weights that were kept)"
    lower.set(xlabel=f"epoch{marked}", ylabel="val recordings", ylim=(-0.02, 1.02))
    _whole_epochs(lower)
    add_legend(figure)
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


def probability_bins(history: Mapping[str, np.ndarray]) -> Figure:
    """Distribution of the validation samples' leak probabilities at each check."""
    shares = np.stack([history[f"val/leak_prob_bin{number}"] for number in range(10)])
    figure = new_figure("Leak probabilities: val samples at each check")
    axes = figure.subplots()
    axes.grid(visible=False)
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
    figure = new_figure("Gradient norms before clipping: train")
    axes = figure.subplots()
    epoch = np.asarray(history["epoch"]) + 1
    axes.plot(epoch, history["gradient/norm_mean"], color=TRAIN, marker=".", label="mean")
    axes.plot(epoch, history["gradient/norm_max"], color=GREY, marker=".", label="largest")
    axes.set(xlabel="epoch", ylabel="gradient norm", yscale="log")
    _whole_epochs(axes)
    add_legend(figure)
    return figure


def rate_finder(path: Path) -> Figure:
    """Loss over the rising learning rate of `find_lr`, from its lr_finder.csv."""
    trace = np.genfromtxt(path, delimiter=",", names=True)
    figure = new_figure("Learning rate finder: train")
    axes = figure.subplots()
    axes.plot(trace["lr"], trace["loss"], color=GREY, linewidth=0.8, label="loss")
    axes.plot(trace["lr"], trace["smoothed"], color=TRAIN, label="smoothed")
    for rate in trace["lr"][trace["chosen"] == 1]:
        axes.axvline(rate, color=LEAK, linestyle="--", label=f"chosen: {rate:.2g}")
    axes.set(xlabel="learning rate", ylabel="loss", xscale="log")
    add_legend(figure)
    return figure


def batch_size_finder(path: Path) -> Figure:
    """Samples per second over batch size, from the batch_size_finder.csv of `data.batch_size=0`."""
    trace = np.atleast_1d(np.genfromtxt(path, delimiter=",", names=True))
    figure = new_figure("Batch size finder: train")
    axes = figure.subplots()
    axes.plot(trace["batch_size"], trace["samples_per_s"], color=TRAIN, marker=".")
    for size in trace["batch_size"][trace["chosen"] == 1]:
        axes.axvline(size, color=LEAK, linestyle="--", label=f"chosen: {size:.0f}")
    axes.set(xlabel="batch size", ylabel="samples per second", ylim=(0, None))
    axes.set_xscale("log", base=2)
    add_legend(figure)
    return figure


def profile_shares(path: Path) -> Figure:
    """The share of each phase in the time of a training, from its profile.csv."""
    rows = read_csv(path, "the phases of a training")[::-1]
    figure = new_figure("Where the time of the training went")
    axes = figure.subplots()
    shares = [100 * float(row["share"]) for row in rows]
    bars = axes.barh([row["phase"] for row in rows], shares, color=VAL)
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.set(xlabel="share of the epochs [%]", xlim=(0, 1.12 * max(shares)))
    axes.grid(visible=False, axis="y")
    return figure


def write_training_figures(
    history: Mapping[str, np.ndarray], best_epoch: int | None, folder: Path
) -> None:
    """Write the PNGs that a run's history and finders allow into `folder`, in the run's folder."""
    with mpl.rc_context(STYLE):
        title = "Learning curves: train and val"
        figures = {"learning_curve": learning_curve(history, best_epoch, title)}
        if "val/leak_prob_bin0" in history:
            figures["leak_prob_checks"] = probability_bins(history)
        if np.isfinite(history.get("gradient/norm_mean", np.array([np.nan]))).any():
            figures["gradient_norms"] = gradient_norms(history)
        drawn = {
            "lr_finder": rate_finder,
            "batch_size_finder": batch_size_finder,
            "profile": profile_shares,
        }
        for name, draw in drawn.items():
            if (folder.parent / f"{name}.csv").exists():
                figures[name] = draw(folder.parent / f"{name}.csv")
    write_pngs(figures, folder)
