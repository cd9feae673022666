"""A run can be looked at: in TensorBoard, and as figures in its folder; and so can what augmentation does."""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from leakdet.reporting.training_figures import gradient_norms, learning_curve, read_history
from leakdet.storage.model_file import load_mel_detector
from leakdet.training import log_names as names
from leakdet.training_run import train_in

FIGURES = ("learning_curve", "confusion", "leak_prob", "leak_prob_checks", "gradient_norms")


def test_tensorboard_and_the_folder_show_the_run(
    demo_store: Path, compose: Callable[..., Any], tmp_path: Path
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = compose(
        "train",
        "experiment=smoke",
        "logger=tensorboard",
        "trainer.enable_progress_bar=false",
        "trainer.max_epochs=2",
        f"data.store={demo_store}",
    )
    train_in(tmp_path, config)
    events = EventAccumulator(str(tmp_path / "logs"), size_guidance={"histograms": 0})
    events.Reload()
    found = events.Tags()
    assert {f"{names.FIGURES}{name}" for name in FIGURES} <= set(found["images"])
    assert set(found["histograms"]) == {names.VAL_PROB_HISTOGRAM, names.VAL_SCORE_HISTOGRAM}
    history = read_history(tmp_path / names.HISTORY)
    for check, event in enumerate(events.Histograms(names.VAL_PROB_HISTOGRAM)):
        shares = [history[name][check] for name in names.VAL_PROB_BINS]
        assert sum(shares) == pytest.approx(1.0)
        # TensorBoard leaves out empty buckets at the ends
        counted = dict(
            zip(event.histogram_value.bucket_limit, event.histogram_value.bucket, strict=True)
        )
        told = {
            (number + 1) / 10: event.histogram_value.num * share
            for number, share in enumerate(shares)
        }
        assert all(counted.get(limit, 0.0) == pytest.approx(count) for limit, count in told.items())
    (chance,) = events.Scalars(names.FIRST_CHANCE_LOSS)
    assert chance.value == pytest.approx(np.log(2))
    assert (
        events.Scalars(names.FIRST_LOGITS[0])[0].value
        < events.Scalars(names.FIRST_LOGITS[1])[0].value
    )
    assert 0 < events.Scalars(names.FIRST_LEAK_SHARE)[0].value < 1
    assert len(events.Scalars(names.VAL_F1)) == len(events.Scalars(names.VAL_LOSS)) == 2
    assert all(event.value > 0 for event in events.Scalars(names.GRADIENT_NORM))
    assert any(name.startswith(names.GRADIENT_LAYER) for name in found["scalars"])
    for name in FIGURES:
        picture = imread(tmp_path / "figures" / f"{name}.png")[..., :3]
        assert picture.std() > 0.02  # something is drawn on it


@pytest.mark.parametrize("epochs", [1, 2, 7, 200])
def test_epochs_are_marked_by_whole_numbers(epochs: int) -> None:
    column = np.linspace(1.0, 0.5, epochs)
    history = {
        "epoch": np.arange(epochs, dtype=float),
        **dict.fromkeys(
            ("train/loss", "val/loss", "val/recording_f1", "val/recording_auroc"), column
        ),
        **dict.fromkeys(("gradient/norm_mean", "gradient/norm_max"), column),
    }
    for figure in (learning_curve(history), gradient_norms(history)):
        figure.draw_without_rendering()
        low, high = figure.axes[-1].get_xlim()
        shown = [tick for tick in figure.axes[-1].get_xticks() if low <= tick <= high]
        assert shown
        assert all(tick == round(tick) for tick in shown)


def test_one_command_draws_every_augmentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Path(__file__).parents[2] / "scripts" / "make_figures.py"
    spec = importlib.util.spec_from_file_location("make_figures", place)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(sys, "argv", ["make_figures.py", "--out", str(tmp_path)])
    script.main()
    drawn = sorted(path.stem for path in tmp_path.glob("*.png"))
    assert drawn == ["eq", "gain", "iaaft", "interference", "mixup", "specaugment"]


def test_what_the_finders_choose_is_drawn_trained_with_and_told(
    demo_store: Path, door: Callable[..., Any], tmp_path: Path
) -> None:
    done = door(
        "train",
        "experiment=smoke",
        "network=linear",
        "logger=none",
        "trainer.enable_progress_bar=false",
        "trainer.max_epochs=1",
        "find_lr=true",
        "find_batch_size=true",
        f"data.store={demo_store}",
        "hydra.run.dir=run",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    chosen = {}
    for name, column in (("lr_finder", "lr"), ("batch_size_finder", "batch_size")):
        tried = np.atleast_1d(
            np.genfromtxt(tmp_path / "run" / f"{name}.csv", delimiter=",", names=True)
        )
        (chosen[column],) = tried[column][tried["chosen"] == 1]
        assert imread(tmp_path / "run" / "figures" / f"{name}.png")[..., :3].std() > 0.02
    card = load_mel_detector(tmp_path / "run" / "model.safetensors").card
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["settings"] == card["training"]["settings"]
    assert metrics["settings"]["optimizer"]["lr"] == chosen["lr"]
    assert metrics["settings"]["data"]["batch_size"] == chosen["batch_size"]
