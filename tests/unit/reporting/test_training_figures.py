from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.patches import Rectangle

from leakdet.reporting.training_figures import (
    confusion,
    gradient_norms,
    learning_curve,
    read_history,
    score_histogram,
    write_training_figures,
)


def history_of(epochs: int) -> dict[str, np.ndarray]:
    column = np.linspace(1.0, 0.5, epochs)
    names = ("train/loss", "val/loss", "val/recording_f1", "val/recording_auroc")
    norms = ("gradient/norm_mean", "gradient/norm_max")
    return {"epoch": np.arange(epochs, dtype=float), **dict.fromkeys((*names, *norms), column)}


@pytest.mark.parametrize("epochs", [1, 2, 7, 200])
def test_epochs_are_marked_by_whole_numbers(epochs: int) -> None:
    for figure in (learning_curve(history_of(epochs)), gradient_norms(history_of(epochs))):
        figure.draw_without_rendering()
        low, high = figure.axes[-1].get_xlim()
        shown = [tick for tick in figure.axes[-1].get_xticks() if low <= tick <= high]
        assert shown
        assert all(tick == round(tick) for tick in shown)


def test_a_history_is_read_with_nan_for_what_was_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_text("epoch,train/loss\n0,\n1,0.25\n", encoding="utf-8")
    history = read_history(path)
    assert history["epoch"].tolist() == [0.0, 1.0]
    assert np.isnan(history["train/loss"][0])
    assert history["train/loss"][1] == 0.25
    path.write_text("epoch\n", encoding="utf-8")
    assert read_history(path) == {}


def test_a_learning_curve_joins_the_checks_that_measured_it_and_marks_the_kept_epoch() -> None:
    history = history_of(4)
    history["train/loss"] = np.array([np.nan, 2.0, np.nan, 1.0])
    del history["val/recording_auroc"]
    upper, lower = learning_curve(history, best_epoch=2).axes
    train = next(line for line in upper.lines if line.get_label() == "train loss")
    assert np.asarray(train.get_xdata()).tolist() == [2.0, 4.0]
    assert lower.lines[0].get_label() == "F1"
    assert np.asarray(lower.lines[-1].get_xdata()).tolist() == [3, 3]


def test_a_confusion_matrix_has_true_in_rows() -> None:
    axes = confusion(tn=1, fp=2, fn=3, tp=4).axes[0]
    cells = {text.get_position(): text.get_text() for text in axes.texts}
    assert cells == {(0, 0): "1", (1, 0): "2", (0, 1): "3", (1, 1): "4"}


def test_the_histogram_counts_every_recording_and_hatches_wrong_verdicts() -> None:
    histogram = {
        "edges": [0.0, 0.25, 0.5, 0.75, 1.0],
        "leak": [1, 0, 0, 2],
        "no_leak": [3, 0, 1, 0],
    }
    upper, lower = score_histogram(histogram, 0.5).axes
    for axes, key, hatched in ((upper, "leak", [0, 1]), (lower, "no_leak", [2, 3])):
        bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        assert [bar.get_height() for bar in bars] == histogram[key]
        assert [place for place, bar in enumerate(bars) if bar.get_hatch()] == hatched
    assert not any(bar.get_hatch() for bar in score_histogram(histogram, None).axes[0].patches)


METRICS = {
    "val": {
        "recording": {"tn": 1, "fp": 0, "fn": 0, "tp": 1},
        "curves": {"histogram": {"edges": [0.0, 0.5, 1.0], "leak": [0, 1], "no_leak": [1, 0]}},
    },
    "decision_rule": {"threshold": 0.5},
}


def test_only_figures_with_data_are_written(tmp_path: Path) -> None:
    history = history_of(3)
    folder = tmp_path / "figures"
    pixels = write_training_figures(history, METRICS, folder)
    names = {"learning_curve", "confusion", "leak_prob", "gradient_norms"}
    assert pixels.keys() == names == {path.stem for path in folder.iterdir()}
    for name, image in pixels.items():
        assert image.dtype == np.uint8
        assert image.std() > 0
        assert imread(folder / f"{name}.png").ndim == 3
    history["gradient/norm_mean"] = np.full(3, np.nan)
    assert "gradient_norms" not in write_training_figures(history, METRICS, folder)
