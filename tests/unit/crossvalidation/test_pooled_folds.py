from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakdet.crossvalidation.folds import make_folds
from leakdet.crossvalidation.pooled_folds import (
    Outcome,
    PooledPredictions,
    prediction_rows,
    protocol_result,
)
from leakdet.evaluation.metrics import auroc
from leakdet.evaluation.traits import traits_of
from leakdet.storage.opening import open_split
from leakdet.storage.views import SplitView, pooled

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
def outcomes(view: SplitView) -> Callable[..., list[Outcome]]:
    """`outcomes(column, seeds)`: folds whose scores were drawn, not trained."""

    def make(groups: np.ndarray, folds: int, seeds: tuple[int, ...] = (0,)) -> list[Outcome]:
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
                    "windows": windows,
                    "protocol": "p",
                }
                made.append(Outcome(fold, groups, is_leak, result))
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
        assert predictions.score[of_fold].tolist() == fold.scores(view).tolist()
        mean = fold.window_prob(view).reshape(-1, WINDOWS).mean(axis=1)
        assert mean == pytest.approx(fold.scores(view))
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
        assert row["site"] == f"s{int(row['recording_id'][:4]) // 2:02}"


def test_folds_that_tell_classes_are_pooled_with_them(view: SplitView, outcomes: Any) -> None:
    rng, folds = np.random.default_rng(0), []
    for outcome in outcomes(view.groups["site"], 3):
        names = outcome.result["scores"]
        told = dict(zip(names, rng.dirichlet((1, 1), len(names)).tolist(), strict=True))
        result = outcome.result | {"class_prob": told}
        folds.append(replace(outcome, result=result, label_id=view.label_id))
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
