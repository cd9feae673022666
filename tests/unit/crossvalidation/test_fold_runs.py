import csv
import json
from collections.abc import Callable
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
from leakdet.core.errors import InputError
from leakdet.crossvalidation.fold_runs import (
    FOLD_KEYS,
    FoldResult,
    PooledPredictions,
    Task,
    all_tasks,
    fold_settings,
    prediction_rows,
    protocol_result,
    protocol_summaries,
    read_fold,
    record_settings,
    run_fold,
    without_group,
    write_fold,
    write_tables,
)
from leakdet.crossvalidation.folds import make_folds
from leakdet.evaluation.metrics import auroc
from leakdet.evaluation.traits import traits_of
from leakdet.storage.opening import open_split
from leakdet.storage.views import SplitView, pooled


def test_a_fold_is_read_as_it_was_written_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    outcome = {"scores": {"a.wav": 0.1 + 0.2}, "fold": "pipe 1", "seed": 0}
    outcome |= {"reasons": {"a.wav": ""}, "windows": {"a.wav": [0.3]}}
    outcome |= {"decision_rule": {"threshold": 0.5}}
    write_fold(tmp_path / "folds" / "x.json", outcome)
    assert read_fold(tmp_path / "folds" / "x.json") == outcome
    assert [path.name for path in (tmp_path / "folds").iterdir()] == ["x.json"]


@pytest.mark.parametrize("text", ["", '{"scores": ', "[]", '{"fold": "pipe 1", "seed": 0}'])
def test_a_file_that_is_no_outcome_is_named_with_the_remedy(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"x\.json: .*a fold.*Remove it"):
        read_fold(path)


def test_a_changed_digit_of_a_fold_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_fold(path, dict.fromkeys(FOLD_KEYS, 0.25))
    path.write_text(path.read_text().replace("0.25", "0.75"))
    with pytest.raises(InputError, match=r"x\.json: damaged: .*Remove it"):
        read_fold(path)


def test_settings_of_a_folder_may_not_change(tmp_path: Path) -> None:
    settings = {"settings": {"optimizer": {"lr": 0.1}, "seed": 0}, "recordings": 8}
    record_settings(tmp_path, settings)
    record_settings(tmp_path, settings)
    changed = {"settings": {"optimizer": {"lr": 0.2}, "seed": 0}, "recordings": 9}
    with pytest.raises(InputError, match=r"\(recordings, settings\.optimizer\.lr differ\)"):
        record_settings(tmp_path, changed)
    with pytest.raises(InputError, match=r"\(settings\.optimizer differ\)"):
        record_settings(tmp_path, {"settings": {"seed": 0}, "recordings": 8})


def test_tables_hold_rows_and_results(tmp_path: Path) -> None:
    rows = [{"protocol": "p", "leak_prob": 0.25}, {"protocol": "p", "leak_prob": 0.75}]
    content = write_tables(tmp_path, {"p": {"folds": []}}, rows, settings={"seed": 1})
    with (tmp_path / "predictions.csv").open(newline="", encoding="utf-8") as file:
        assert [float(row["leak_prob"]) for row in csv.DictReader(file)] == [0.25, 0.75]
    assert json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8")) == content
    assert content["crossval"] == {"p": {"folds": []}}
    assert content["settings"] == {"seed": 1}
    assert content["splits"] == []


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
def store_view(store: Path) -> SplitView:
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
    stop: str, store: Path, store_view: SplitView, tmp_path: Path
) -> None:
    settings = config(store, stop)
    task = all_tasks(settings, store_view)[0]
    labels = store_view.label_id.copy()
    labels[task.fold.test] = 1 - labels[task.fold.test]
    flipped = replace(task, view=replace(store_view, label_id=labels))
    original, with_flipped = (
        run_fold(settings, store, a_task, tmp_path / "folds") for a_task in (task, flipped)
    )
    assert with_flipped["scores"] == original["scores"]
    assert with_flipped["decision_rule"] == original["decision_rule"]
    assert list((tmp_path / "folds").iterdir()) == []  # nothing is left of the training


def test_a_fold_says_what_it_did(store: Path, store_view: SplitView, tmp_path: Path) -> None:
    settings = config(store, "val")
    tasks = all_tasks(settings, store_view)
    assert [task.file_name for task in tasks] == [
        "leave-out-pipe.seed0.fold000.json",
        "leave-out-pipe.seed0.fold001.json",
    ]
    result = run_fold(settings, store, tasks[1], tmp_path)
    assert result["fold"] == "B"
    assert result["recordings"] == {"train": 6, "val": 2, "test": 8}
    assert result["validated_by"] == "recording"
    assert result["scores"].keys() == set(store_view.recording_ids[8:].tolist())
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
    store_view = pooled([open_split(write_store(train=recordings), "train")])
    ids = store_view.recording_ids.tolist()
    everything = ProtocolConfig("pipe")
    assert without_group(everything, store_view, "p") == [*ids[:2], *ids[6:]]
    leaks = ProtocolConfig("pipe", where={"label": "leak"})
    assert without_group(leaks, store_view, "p") == [
        ids[0],
        ids[6],
    ]  # the others were never asked for
    assert without_group(ProtocolConfig("recording"), store_view, "p") == []
    settings = CrossvalConfig(crossval=CrossvalSettings(group_by="pipe"))
    _, note = protocol_summaries(settings, store_view)
    assert "4 recordings are left out" in note
    assert "because the pipe is blank" in note
    assert ids[0] in note
    assert "and 1 more" in note


def test_a_validation_part_that_chooses_nothing_trains_too(
    store: Path, store_view: SplitView, tmp_path: Path
) -> None:
    settings = config(store)
    task = all_tasks(settings, store_view)[1]
    assert sorted(task.fold.train) == sorted(task.fold.fitted) == list(range(8))
    assert len(task.fold.val) == 2
    result = run_fold(settings, store, task, tmp_path)
    assert result["recordings"] == {"train": 8, "val": 0, "test": 8}
    assert (result["validated_by"], result["best_epoch"]) == ("none", 2)
    rule = result["decision_rule"]
    assert (rule["policy"], rule["threshold"], rule["fitted_on"]) == ("fixed", 0.5, None)
    fitted = replace(settings, decision=DecisionConfig(policy="min_tpr"))
    apart = all_tasks(fitted, store_view)[1].fold
    assert set(apart.train).isdisjoint(apart.val)
    assert len(apart.fitted) == 8


def test_repeats_divide_anew_and_shuffled_labels_hold_for_a_whole_repeat(
    store: Path, store_view: SplitView
) -> None:
    null = config(store, repeats=2, folds=2)
    null.data.shuffle_labels = True
    tasks = all_tasks(null, store_view)
    assert [task.seed for task in tasks] == [0, 0, 1, 1]
    assert (tasks[0].is_leak == tasks[1].is_leak).all()
    assert any((tasks[0].is_leak != task.is_leak).any() for task in tasks[2:])
    for task in tasks:
        assert (task.is_leak == (task.view.label_id == 0)).all()
        assert task.is_leak.sum() == 8


def test_folds_train_beside_made_up_sounds_unless_their_labels_are_shuffled(
    store: Path, store_view: SplitView
) -> None:
    made_up = config(store, folds=2)
    made_up.data.negatives = "synthetic"
    task = all_tasks(made_up, store_view)[0]
    assert fold_settings(made_up, task).data.negatives == "synthetic"
    made_up.data.shuffle_labels = True
    assert fold_settings(made_up, task).data.negatives is None
    assert "a null test trains on its" in "".join(protocol_summaries(made_up, store_view))


WINDOWS = 2


@pytest.fixture
def view(write_store: Any, planted: Any) -> SplitView:
    """Twelve sites with a leak and another recording each."""
    recordings = [
        planted(
            "leak" if n % 2 else "other",
            seed=n,
            windows=WINDOWS,
            groups={"site": f"s{n // 2:02}"},
        )
        for n in range(24)
    ]
    return pooled([open_split(Path(write_store(train=recordings)), "train")])


@pytest.fixture
def outcomes(view: SplitView) -> Callable[..., list[FoldResult]]:
    """`outcomes(column, seeds)`: folds whose scores were drawn, not trained."""

    def make(groups: np.ndarray, folds: int, seeds: tuple[int, ...] = (0,)) -> list[FoldResult]:
        is_leak = view.label_id == view.label_names.index("leak")
        made = []
        for seed in seeds:
            rng = np.random.default_rng(seed)
            for number, fold in enumerate(make_folds(groups, is_leak, folds, 0.25, seed)):
                names = view.recording_ids[fold.test].tolist()
                windows = {
                    name: rng.uniform(0.2 * leak, 0.8 + 0.2 * leak, WINDOWS).tolist()
                    for name, leak in zip(names, is_leak[fold.test].tolist(), strict=True)
                }
                result = {
                    "seed": seed,
                    "fold": fold.name,
                    "decision_rule": {"threshold": 0.4 + 0.05 * number},
                    "scores": {name: float(np.mean(prob)) for name, prob in windows.items()},
                    "reasons": {
                        name: ("", "doubt")[prob[0] > 0.7] for name, prob in windows.items()
                    },
                    "windows": windows,
                    "protocol": "p",
                }
                made.append(
                    FoldResult(Task("p", seed, number, fold, groups, view, is_leak), result)
                )
        return made

    return make


def test_each_recording_is_pooled_once_per_repeat_with_its_folds_threshold(
    view: SplitView, outcomes: Any
) -> None:
    folds = outcomes(view.groups["site"], 3, seeds=(0, 1))
    predictions = PooledPredictions.of(folds, view)
    for seed in (0, 1):
        assert sorted(predictions.row[predictions.seed == seed]) == list(range(24))
    assert (predictions.group == view.groups["site"][predictions.row]).all()
    for fold in folds:
        of_fold = (predictions.fold == fold.fold.name) & (predictions.seed == fold.result["seed"])
        assert set(predictions.threshold[of_fold]) == {fold.threshold}
        assert predictions.score[of_fold].tolist() == fold.scores().tolist()
        mean = fold.window_prob().reshape(-1, WINDOWS).mean(axis=1)
        assert mean == pytest.approx(fold.scores())
        assert set(fold.fold.fitted).isdisjoint(fold.fold.test)


def test_counts_are_those_of_each_folds_decisions_and_auroc_that_of_the_scores(
    view: SplitView, outcomes: Any
) -> None:
    folds = outcomes(view.groups["site"], 3, seeds=(0, 1))
    predictions = PooledPredictions.of(folds, view)
    result = protocol_result(folds, view, traits_of(view), shuffled=False)
    table = result["recording"]
    called = predictions.score >= predictions.threshold
    assert table["n"] == 48
    assert table["tp"] == int((called & predictions.is_leak).sum())
    assert table["auroc"] == auroc(predictions.score, predictions.is_leak)
    left, decided = int((predictions.reason != "").sum()), predictions.reason == ""
    coverage = result["coverage"]
    assert (coverage["undecided"], coverage["decided"]) == ({"doubt": left}, 48 - left)
    assert 0 < left < 48
    assert coverage["tp"] == int((called & predictions.is_leak & decided).sum())
    assert result["audit"]["network"]["auroc"] == table["auroc"]
    assert result["audit"]["network"]["interval"] == table["intervals"]["auroc"]
    first = predictions.seed == 0
    expected = auroc(predictions.score[first], predictions.is_leak[first])
    assert result["auroc_of_repeats"]["0"] == expected
    assert [row["leaks"] for row in result["folds"]] == [4] * 6
    for row in result["folds"]:
        assert row.keys() == {"seed", "fold", "leaks", "threshold", "auroc"}


def test_groups_are_resampled_where_there_are_ten(view: SplitView, outcomes: Any) -> None:
    traits = traits_of(view)
    pairs = np.char.add("g", (np.arange(24) // 6).astype(str))
    units = {
        name: protocol_result(outcomes(groups, 2), view, traits, False)["recording"]["intervals"]
        for name, groups in (("many", view.groups["site"]), ("few", pairs))
    }
    assert (units["many"]["unit"], units["few"]["unit"]) == ("group", "recording")


def test_rows_say_what_was_decided(view: SplitView, outcomes: Any) -> None:
    predictions = PooledPredictions.of(outcomes(view.groups["site"], 3), view)
    rows = prediction_rows("by site", predictions, view)
    assert len(rows) == 24
    for row in rows:
        assert row["protocol"] == "by site"
        assert (row["decision"] == "leak") == (row["leak_prob"] >= row["threshold"])
        assert row["is_leak"] == (row["label"] == "leak")
        assert row["reason"] in ("", "doubt")
        assert row["site"] == f"s{int(row['recording_id'][:4]) // 2:02}"


def test_folds_that_tell_classes_are_pooled_with_them(view: SplitView, outcomes: Any) -> None:
    rng, folds = np.random.default_rng(0), []
    for outcome in outcomes(view.groups["site"], 3):
        names = outcome.result["scores"]
        told = dict(zip(names, rng.dirichlet((1, 1), len(names)).tolist(), strict=True))
        result = outcome.result | {"class_prob": told}
        folds.append(replace(outcome, result=result))
    predictions = PooledPredictions.of(folds, view)
    assert predictions.classes is not None
    assert predictions.classes.true.tolist() == view.label_id[predictions.row].tolist()
    table = protocol_result(folds, view, traits_of(view), False)["classes"]
    assert (table["n"], table["intervals"]["unit"]) == (24, "group")
    for row in prediction_rows("p", predictions, view):
        of_row = {name: row[f"prob_{name}"] for name in view.label_names}
        fold = next(fold for fold in folds if fold.fold.name == row["fold"])
        told = fold.result["class_prob"][row["recording_id"]]
        assert list(of_row.values()) == pytest.approx(told, abs=1e-6)
        assert row["class"] == max(of_row, key=lambda name: of_row[name])
    # of folds that were run before classes were told, nothing is
    assert (
        PooledPredictions.of([folds[0], *outcomes(view.groups["site"], 3)[1:]], view).classes
        is None
    )
