from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from leakdet.core.errors import InputError
from leakdet.reporting.training_figures import (
    gradient_norms,
    learning_curve,
    profile_shares,
    read_history,
    write_training_figures,
)

pytestmark = pytest.mark.usefixtures("figures")


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


def test_only_figures_with_data_are_written(tmp_path: Path) -> None:
    history = history_of(3)
    folder = tmp_path / "figures"
    write_training_figures(history, 1, folder)
    names = {"learning_curve", "gradient_norms"}
    assert names == {path.stem for path in folder.iterdir()}
    for name in names:
        assert imread(folder / f"{name}.png")[..., :3].std() > 0.02
    history["gradient/norm_mean"] = np.full(3, np.nan)
    write_training_figures(history, None, tmp_path / "more" / "figures")
    assert [path.stem for path in (tmp_path / "more" / "figures").iterdir()] == ["learning_curve"]


def test_titles_name_the_split_and_legends_cover_nothing() -> None:
    history = history_of(3)
    for figure in (learning_curve(history, title="Learning curves: train and val"),
                   gradient_norms(history)):  # fmt: skip
        assert "train" in figure.get_suptitle()
        assert not any(axes.get_legend() for axes in figure.axes)
        assert len(figure.legends) == 1


@pytest.mark.parametrize("rows", ["0,x\n", "0\n", "0,1,2\n"])
def test_a_damaged_history_is_named(tmp_path: Path, rows: str) -> None:
    (tmp_path / "history.csv").write_text(f"epoch,train/loss\n{rows}", encoding="utf-8")
    with pytest.raises(InputError, match=r"history\.csv: .*history.* \(.+\)"):
        read_history(tmp_path / "history.csv")


def test_phases_of_a_profile_are_bars_with_their_share(tmp_path: Path) -> None:
    path = tmp_path / "profile.csv"
    path.write_text("phase,share\nwait,0.25\nforward,0.75\n", encoding="utf-8")
    (axes,) = profile_shares(path).axes
    assert [bar.get_width() for bar in axes.patches] == [75, 25]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["forward", "wait"]
