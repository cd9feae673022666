import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.config import LabelsConfig
from leakdet.core.errors import InputError
from leakdet.detection.labels import LabelMap, label_view
from leakdet.evaluation.comparison import (
    compare,
    disagreements,
    labels_for,
    mcnemar,
    recording_differences,
    recording_rows,
)
from leakdet.storage.hdf5 import seal_h5
from leakdet.storage.opening import open_split
from leakdet.storage.store import StoreSplit


def model(*labels: str, **settings: Any) -> LabelMap:
    return LabelMap.of_view(label_view(labels, LabelsConfig(**settings), "x"), "binary")


@pytest.fixture
def split(write_store: Callable[..., Path], planted: Any) -> Callable[..., StoreSplit]:
    """A split of these labels, of which its store calls some leaks."""

    def make(*labels: str, leaks: list[str]) -> StoreSplit:
        store = write_store(test=[planted("other", seed) for seed in range(len(labels))])
        with h5py.File(store / "test.h5", "r+") as file:
            file.attrs["label_names"] = str(list(labels)).replace("'", '"')
            file.attrs["leak_labels"] = str(leaks).replace("'", '"')
            file["label_id"][:] = range(len(labels))
        seal_h5(store / "test.h5")
        return open_split(store, "test")

    return make


def test_a_model_that_knows_all_labels_says_which_are_leaks(split: Any) -> None:
    trained = model("leak", "drip", "ok", leak=["leak", "drip"])
    found = labels_for(trained, split("LEAK", "Drip", "ok", leaks=["LEAK"]), LabelsConfig())
    assert found.leak == ["LEAK", "Drip"]


def test_what_training_renamed_or_left_out_is_so_here(split: Any) -> None:
    trained = model("leak", "noise", "ok", "?", rename={"noise": "ok"}, ignore="?")
    found = labels_for(trained, split("leak", "Noise", "ok", "?", leaks=["leak"]), LabelsConfig())
    assert (found.rename, found.ignore) == ({"noise": "ok"}, ["?"])


@pytest.mark.parametrize("trained", [model("leak", "ok"), LabelMap("binary", ("a", "b"), (1,))])
def test_labels_unknown_to_the_model_are_the_stores(trained: LabelMap, split: Any) -> None:
    found = labels_for(trained, split("burst", "quiet", leaks=["burst"]), LabelsConfig())
    assert found.leak == ["burst"]


def test_a_dispute_is_refused_until_it_is_decided(split: Any) -> None:
    trained = model("leak", "drip", "ok", leak=["leak", "drip"])
    disputed = split("leak", "drip", "ok", "rain", leaks=["leak"])
    with pytest.raises(InputError, match=r"disagree on whether drip means a leak \(model: leak, d"):
        labels_for(trained, disputed, LabelsConfig())
    assert labels_for(trained, disputed, LabelsConfig(leak="leak")).leak == ["leak"]


def test_the_remedy_is_an_option_of_evaluate(split: Any) -> None:
    with pytest.raises(InputError, match=r"Add, for example, --leak NAME$"):
        labels_for(model("leak", "ok"), split("burst", "ok", leaks=["leak"]), LabelsConfig())


def test_a_better_model_is_named_and_an_equal_one_is_not(scored):
    weak, strong = scored(n=200, gap=0.05), scored(n=200, gap=0.5)
    comparison = compare(weak, strong, ("weak", "strong"), replicates=200)
    accuracy = comparison["differences"][0]
    assert accuracy["difference"] == pytest.approx(weak.wrong.mean() - strong.wrong.mean())
    assert accuracy["interval"][0] > 0
    assert comparison["mcnemar"]["only_b"] == (weak.wrong & ~strong.wrong).sum()
    assert comparison["sentence"].startswith("strong is better: of 200 recordings")
    assert compare(strong, weak, ("s", "w"), replicates=200)["sentence"].startswith("s is better")
    assert compare(weak, weak, ("w", "w"), replicates=50)["sentence"].startswith(
        "No measurable difference"
    )
    few = [recordings.take(np.arange(5)) for recordings in (weak, strong)]
    assert compare(*few, ("w", "s"), replicates=50)["sentence"].endswith(": 5 recordings.")


def test_those_on_which_two_models_disagree_come_first_the_farthest_apart_before(scored):
    a, b = scored(n=5), scored(n=5)
    a.score, b.score = np.array([0.1, 0.4, 0.6, 0.9, 0.2]), np.array([0.45, 0.55, 0.1, 0.9, 0.3])
    assert disagreements(a, b, 9) == [(2, 2, True), (1, 1, True), (0, 0, False), (4, 4, False)]
    assert disagreements(a, b, 1) == [(2, 2, True)]
    b = b.take(np.array([4, 2]))  # as where the other model has met the rest
    assert disagreements(a, b, 9) == [(2, 1, True), (4, 0, False)]


def test_recordings_are_compared_one_by_one(scored):
    a, b = scored(n=8), scored(n=8)
    b.score = a.score.copy()
    b.score[3] += np.float32(0.004)
    b.score[6] = 1.0 - a.score[6]  # on the other side of the threshold
    found = recording_differences(a, b)
    assert found["largest"] == pytest.approx(abs(1.0 - 2.0 * a.score[6]))
    assert (found["median"], found["where"], found["ids"]) == (0.0, "r6", ["r6"])
    assert re.search(r"\(r6\).* 0\.0e\+00; 1 of 8 verdicts .*: r6\.", found["sentence"])
    assert compare(a, b, ("a", "b"), replicates=50)["recordings"] == found
    assert "none of 8 verdicts" in recording_differences(a, a)["sentence"]


def test_rows_pair_the_recordings_that_both_were_scored_on(scored):
    a, b = scored(n=6), scored(n=6, seed=1)
    rows = list(recording_rows(a, b.take(np.array([4, 1]))))
    assert [row["recording_id"] for row in rows] == ["r1", "r4"]
    for row, at in zip(rows, (1, 4), strict=True):
        assert (row["leak_prob_a"], row["leak_prob_b"]) == (
            pytest.approx(a.score[at], abs=1e-6),
            pytest.approx(b.score[at], abs=1e-6),
        )
        assert row["difference"] == pytest.approx(b.score[at] - a.score[at], rel=1e-2)
        assert row["same_decision"] == (a.decision[at] == b.decision[at])


def test_only_the_same_recordings_are_compared(scored):
    with pytest.raises(InputError, match="same recordings"):
        compare(scored(n=10), scored(n=12), ("a", "b"))


@pytest.mark.parametrize(
    ("only_a", "only_b"), [(0, 0), (1, 0), (3, 9), (9, 3), (50, 50), (0, 40), (700, 820)]
)
def test_mcnemar_is_the_exact_binomial_test(only_a, only_b):
    correct_a = np.array([True] * only_a + [False] * only_b + [True, False])
    correct_b = np.array([False] * only_a + [True] * only_b + [True, False])
    test = mcnemar(correct_a, correct_b)
    n = only_a + only_b
    tail = sum(math.comb(n, k) for k in range(min(only_a, only_b) + 1)) / 2**n
    assert (test["only_a"], test["only_b"]) == (only_a, only_b)
    assert test["p_value"] == pytest.approx(min(1.0, 2 * tail), rel=1e-9)
