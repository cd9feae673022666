from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakdet.config import (
    CrossvalConfig,
    CrossvalSettings,
    DataConfig,
    DecisionConfig,
    NetworkConfig,
    ProtocolConfig,
    StopConfig,
)
from leakdet.crossvalidation.run_fold import all_tasks, protocol_summaries, run_fold, without_group
from leakdet.storage.opening import open_split
from leakdet.storage.views import SplitView, pooled

TRAINER = {
    "accelerator": "cpu",
    "devices": 1,
    "max_epochs": 3,
    "log_every_n_steps": 1,
    "enable_model_summary": False,
}


@pytest.fixture
def store(write_store: Any, planted: Any) -> Path:
    recordings = [
        planted(
            "leak" if n % 2 else "other",
            seed=n,
            bump_db=4.0 * (n % 2),
            groups={"pipe": "AB"[n // 8]},
        )
        for n in range(16)
    ]
    return Path(write_store(train=recordings))


@pytest.fixture
def view(store: Path) -> SplitView:
    return pooled([open_split(store, "train")])


def config(store: Path, stop: str = "auto", **settings: Any) -> CrossvalConfig:
    return CrossvalConfig(
        stop=StopConfig(stop),
        data=DataConfig(store=str(store), batch_size=32),
        network=NetworkConfig(name="linear", time_pool=1),
        trainer=TRAINER,
        crossval=CrossvalSettings(group_by="pipe", **settings),
    )


@pytest.mark.parametrize("stop", ["val", "fixed"])
def test_the_labels_held_out_change_neither_a_score_nor_the_threshold(
    stop: str, store: Path, view: SplitView, tmp_path: Path
) -> None:
    settings = config(store, stop)
    task = all_tasks(settings, view)[0]
    labels = view.label_id.copy()
    labels[task.fold.test] = 1 - labels[task.fold.test]
    flipped = replace(task, view=replace(view, label_id=labels))
    original, with_flipped = (
        run_fold(settings, store, a_task, tmp_path / "folds") for a_task in (task, flipped)
    )
    assert with_flipped["scores"] == original["scores"]
    assert with_flipped["decision_rule"] == original["decision_rule"]
    assert list((tmp_path / "folds").iterdir()) == []  # nothing is left of the training


def test_a_fold_says_what_it_did(store: Path, view: SplitView, tmp_path: Path) -> None:
    settings = config(store, "val")
    tasks = all_tasks(settings, view)
    assert [task.file_name for task in tasks] == [
        "leave-out-pipe.seed0.fold000.json",
        "leave-out-pipe.seed0.fold001.json",
    ]
    result = run_fold(settings, store, tasks[1], tmp_path)
    assert result["fold"] == "B"
    assert result["recordings"] == {"train": 6, "val": 2, "test": 8}
    assert result["validated_by"] == "recording"
    assert result["scores"].keys() == set(view.recording_ids[8:].tolist())
    for name, windows in result["windows"].items():
        assert len(windows) == 4
        assert np.isclose(
            np.mean(windows), result["scores"][name], atol=1e-4
        )  # pooling is the mean


def test_recordings_of_a_blank_group_are_named(write_store: Any, planted: Any) -> None:
    pipes = ["", "A", "B", ""]
    recordings = [
        planted(label, seed=2 * n + k, groups={"pipe": pipe})
        for n, pipe in enumerate(pipes)
        for k, label in enumerate(("leak", "other"))
    ]
    view = pooled([open_split(write_store(train=recordings), "train")])
    ids = view.recording_ids.tolist()
    everything = ProtocolConfig("pipe")
    assert without_group(everything, view, "p") == [*ids[:2], *ids[6:]]
    leaks = ProtocolConfig("pipe", where={"label": "leak"})
    assert without_group(leaks, view, "p") == [ids[0], ids[6]]  # the others were never asked for
    assert without_group(ProtocolConfig("recording"), view, "p") == []
    settings = CrossvalConfig(crossval=CrossvalSettings(group_by="pipe"))
    _, note = protocol_summaries(settings, view)
    assert "4 recordings are left out" in note
    assert "because the pipe is blank" in note
    assert all(name in note for name in (ids[0], ids[7]))


def test_a_validation_part_that_chooses_nothing_trains_too(
    store: Path, view: SplitView, tmp_path: Path
) -> None:
    settings = config(store)
    task = all_tasks(settings, view)[1]
    assert sorted(task.fold.train) == sorted(task.fold.fitted) == list(range(8))
    assert len(task.fold.val) == 2
    result = run_fold(settings, store, task, tmp_path)
    assert result["recordings"] == {"train": 8, "val": 0, "test": 8}
    assert (result["validated_by"], result["best_epoch"]) == ("none", 2)
    rule = result["decision_rule"]
    assert (rule["policy"], rule["threshold"], rule["fitted_on"]) == ("fixed", 0.5, None)
    fitted = replace(settings, decision=DecisionConfig(policy="min_tpr"))
    apart = all_tasks(fitted, view)[1].fold
    assert set(apart.train).isdisjoint(apart.val)
    assert len(apart.fitted) == 8


def test_repeats_divide_anew_and_shuffled_labels_hold_for_a_whole_repeat(
    store: Path, view: SplitView
) -> None:
    null = config(store, repeats=2, folds=2)
    null.data.shuffle_labels = True
    tasks = all_tasks(null, view)
    assert [task.seed for task in tasks] == [0, 0, 1, 1]
    assert (tasks[0].is_leak == tasks[1].is_leak).all()
    assert any((tasks[0].is_leak != task.is_leak).any() for task in tasks[2:])
    for task in tasks:
        assert (task.is_leak == (task.view.label_id == 0)).all()
        assert task.is_leak.sum() == 8
