"""Figures: of a run in TensorBoard and in its folder, of augmentation, of the rate finder."""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from leakdet.reporting.training_figures import read_history
from leakdet.runs.training import train_in
from leakdet.storage.model_file import load_mel_detector
from leakdet.training import log_names

pytestmark = pytest.mark.usefixtures("figures")

FIGURES = ("roc", "precision_recall", "reliability", "confusion", "leak_prob")
FIGURES += ("learning_curve", "leak_prob_checks", "gradient_norms")


def test_tensorboard_and_the_folder_show_the_run(
    demo_store: Path, compose: Callable[..., Any], tmp_path: Path
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    settings = ("experiment=smoke", "logger=tensorboard", f"data.store={demo_store}")
    settings += ("trainer.enable_progress_bar=false", "trainer.max_epochs=2")
    train_in(tmp_path, compose("train", *settings))
    events = EventAccumulator(str(tmp_path / "logs"), size_guidance={"histograms": 0})
    events.Reload()
    tags = events.Tags()
    assert {f"{log_names.FIGURES}{name}" for name in FIGURES} <= set(tags["images"])
    assert set(tags["histograms"]) == {log_names.VAL_PROB_HISTOGRAM, log_names.VAL_SCORE_HISTOGRAM}
    history = read_history(tmp_path / log_names.HISTORY)
    for check, event in enumerate(events.Histograms(log_names.VAL_PROB_HISTOGRAM)):
        shares = [history[name][check] for name in log_names.VAL_PROB_BINS]
        assert sum(shares) == pytest.approx(1.0)
        value = event.histogram_value
        buckets = dict(zip(value.bucket_limit, value.bucket, strict=True))
        for number, share in enumerate(shares):
            # TensorBoard leaves out empty buckets at the ends.
            count = buckets.get((number + 1) / 10, 0.0)
            assert count == pytest.approx(value.num * share)
    (chance,) = events.Scalars(log_names.FIRST_CHANCE_LOSS)
    assert chance.value == pytest.approx(np.log(2))
    lowest, highest = (events.Scalars(name)[0].value for name in log_names.FIRST_LOGITS)
    assert lowest < highest
    assert 0 < events.Scalars(log_names.FIRST_LEAK_SHARE)[0].value < 1
    assert len(events.Scalars(log_names.VAL_F1)) == len(events.Scalars(log_names.VAL_LOSS)) == 2
    assert all(event.value > 0 for event in events.Scalars(log_names.GRADIENT_NORM))
    assert any(name.startswith(log_names.GRADIENT_LAYER) for name in tags["scalars"])
    for name in FIGURES:
        picture = imread(tmp_path / "figures" / f"{name}.png")[..., :3]
        assert picture.std() > 0.02  # not an empty figure


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
    assert drawn == ["eq", "gain", "interference", "mixup", "specaugment"]


def test_the_choice_of_the_rate_finder_is_drawn_used_and_recorded(
    demo_store: Path, door: Callable[..., Any], tmp_path: Path
) -> None:
    settings = ("experiment=smoke", "network=linear", "logger=none", f"data.store={demo_store}")
    settings += ("trainer.enable_progress_bar=false", "trainer.max_epochs=1")
    result = door("train", *settings, "find_lr=true", "hydra.run.dir=run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    tried = np.genfromtxt(tmp_path / "run" / "lr_finder.csv", delimiter=",", names=True)
    (chosen,) = tried["lr"][tried["chosen"] == 1]
    assert imread(tmp_path / "run" / "figures" / "lr_finder.png")[..., :3].std() > 0.02
    card = load_mel_detector(tmp_path / "run" / "model.safetensors").card
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["settings"] == card["training"]["settings"]
    assert metrics["settings"]["optimizer"]["lr"] == chosen
