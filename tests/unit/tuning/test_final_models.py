import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakdet.config import TrainConfig, TuneConfig
from leakdet.tuning.final_models import compare_models, final_models, same_f1, tuning_sentence

Settings = Callable[..., TuneConfig]


def comparison(split: str = "test", units: int = 40, **f1: Any) -> dict[str, Any]:
    table = {"a": 0.772, "b": 0.784, "difference": 0.012, "interval": [-0.1, 0.2], "note": None}
    unit = "recording" if units == 40 else "site"
    return {"val": {}} | {split: {"recordings": 40, "unit": unit, "units": units, "f1": table | f1}}


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            comparison(interval=[0.01, 0.2]),
            "Tuning helped: F1 0.772 before, 0.784 after on 40 test recordings "
            "(95 % interval of the gain +0.010 to +0.200).",
        ),
        (
            comparison(),
            "Tuning made no measurable difference: F1 0.772 before, 0.784 after on "
            "40 test recordings (95 % interval of the gain -0.100 to +0.200).",
        ),
        (
            comparison(interval=[-0.3, -0.1]),
            "Tuning made the detector worse; keep the untuned settings: F1 0.772 before, 0.784 "
            "after on 40 test recordings (95 % interval of the gain -0.300 to -0.100).",
        ),
        (
            comparison(units=8, a=0.67, b=0.67, interval=[0.0, 0.0]),
            "Tuning made no measurable difference (F1 0.67 before and after); "
            "40 test recordings from 8 groups (site) are too few to tell.",
        ),
        (
            comparison(interval=None),
            "Tuning made no measurable difference (F1 0.772 before, 0.784 after); "
            "40 test recordings are too few to tell.",
        ),
        (
            comparison(difference=None, a=None, note="f1 is undefined for a"),
            "Whether tuning helped is unknown: f1 is undefined for a on the 40 test recordings.",
        ),
    ],
)
def test_the_verdict_says_no_more_than_the_interval(found: dict[str, Any], sentence: str) -> None:
    assert tuning_sentence(found) == sentence


def test_few_recordings_are_told_as_such() -> None:
    table = {"a": 2 / 3, "b": 2 / 3, "difference": 0.0, "interval": [0.0, 0.0], "note": None}
    found = {"test": {"recordings": 8, "unit": "recording", "units": 8, "f1": table}}
    assert tuning_sentence(found) == (
        "Tuning made no measurable difference (F1 0.67 before and after); "
        "8 test recordings are too few to tell."
    )


def test_without_test_the_verdict_tells_that_val_flatters() -> None:
    sentence = tuning_sentence(comparison(split="val", interval=[0.01, 0.2]))
    assert sentence.startswith("Tuning helped: ")
    assert sentence.endswith(
        "The trials were chosen on these recordings, which flatters the winner."
    )


def test_an_f1_is_recognised_in_single_and_double_precision() -> None:
    """F1 of 18 leaks found with 11 false alarms, logged in training and evaluated; and of 10."""
    assert same_f1(36 / 47, 0.7659574747085571)
    assert not same_f1(36 / 46, 0.7659574747085571)
    assert not same_f1(None, 0.5)
    assert not same_f1(None, None)


def test_a_model_compared_with_itself_differs_in_nothing(trained: Any) -> None:
    tables = compare_models(trained.model, trained.model)
    metrics = json.loads((trained.folder / "metrics.json").read_text(encoding="utf-8"))
    for split in ("val", "test"):
        table = tables[split]
        assert table["f1"]["a"] == table["f1"]["b"] == metrics[split]["recording"]["f1"]
        assert table["auroc"]["difference"] == 0.0
        assert (table["unit"], table["recordings"]) == ("site", metrics[split]["recording"]["n"])
        assert 1 < table["units"] < table["recordings"]  # whole sites are resampled
        assert table["mcnemar"] == {"only_a": 0, "only_b": 0, "p_value": 1.0}


def test_both_configurations_are_trained_in_new_folders_and_compared(
    settings: Settings, trained: Any, tmp_path: Path
) -> None:
    """By a training that copies a finished run, and logs the F1 of its metrics."""
    metrics = json.loads((trained.folder / "metrics.json").read_text(encoding="utf-8"))
    f1 = metrics["val"]["recording"]["f1"]
    runs: dict[str, TrainConfig] = {}

    def train(folder: Path, config: TrainConfig) -> dict[str, Any]:
        assert list(folder.iterdir()) == []
        runs[folder.name] = config
        shutil.copy(trained.model, folder)
        return metrics

    config = settings()
    tuned = TrainConfig(patience=3, threads=2)
    left_over = Path(config.tune.folder) / "best" / "of an interrupted run"
    left_over.mkdir(parents=True)
    for value, reproduced in ((f1, True), (f1 / 2, False)):
        result = final_models(config, tuned, value, train)
        assert result["reproduced"] is reproduced
    assert runs["best"] == tuned
    assert runs["untuned"] == TrainConfig(threads=2)
    assert result["verdict"].startswith("Tuning made no measurable difference")
    assert Path(result["model"]).is_file()
    assert "reproduced" not in final_models(settings(repeats=2), tuned, f1, train)
