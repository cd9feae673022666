"""Tables of all classes are those of scikit-learn and torchmetrics, with intervals."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support
from torchmetrics.functional.classification import multiclass_f1_score

from leakdet.config import LabelsConfig
from leakdet.detection.labels import LabelMap, label_view
from leakdet.evaluation.class_tables import (
    ClassScores,
    class_rates,
    class_sentence,
    class_table,
    true_classes,
)
from leakdet.evaluation.intervals import wilson

NAMES = ("drip", "burst", "ok", "pump")
LABELS = LabelMap("multiclass", NAMES, (0, 1))
Make = Callable[..., tuple[ClassScores, np.ndarray]]


@pytest.fixture
def scores() -> Make:
    """`scores(true)`: probabilities that favour the true class, and the labels."""

    def make(true: np.ndarray, gap: float = 1.5) -> tuple[ClassScores, np.ndarray]:
        rng = np.random.default_rng(0)
        logits = rng.normal(0, 1, (len(true), 4)) + gap * np.eye(4)[true]
        prob = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        return ClassScores(LABELS, prob, true), np.array(NAMES)[true]

    return make


def test_counts_and_metrics_are_scikit_learns(scores: Make) -> None:
    told, label = scores(np.arange(200) % 4)
    table = class_table(told, label)
    assert table["confusion"] == confusion_matrix(told.true, told.predicted).tolist()
    precision, recall, f1, n = precision_recall_fscore_support(told.true, told.predicted)
    for index, row in enumerate(table["classes"]):
        assert row["name"] == NAMES[index]
        assert row["leak"] == (index < 2)
        found = (row["precision"], row["recall"], row["f1"], row["n"])
        assert found == pytest.approx((precision[index], recall[index], f1[index], n[index]))
    assert table["macro_f1"] == pytest.approx(f1.mean())
    assert table["accuracy"] == pytest.approx((told.true == told.predicted).mean())
    np.testing.assert_allclose(np.sum(table["shares"], axis=1), 1)


@pytest.mark.parametrize("absent", [False, True])
def test_macro_f1_is_that_of_torchmetrics(scores: Make, absent: bool) -> None:
    told, label = scores(np.arange(90) % (3 if absent else 4), gap=0.5)
    expected = multiclass_f1_score(
        torch.from_numpy(told.predicted), torch.from_numpy(told.true), num_classes=4
    )
    assert class_table(told, label, replicates=50)["macro_f1"] == pytest.approx(float(expected))


def test_intervals_hold_their_value_and_shrink_with_the_sample(scores: Make) -> None:
    widths = []
    for n in (40, 640):
        told, label = scores(np.arange(n) % 4)
        table = class_table(told, label)
        cells = [
            (value, interval)
            for row, row_intervals in zip(table["shares"], table["share_intervals"], strict=True)
            for value, interval in zip(row, row_intervals, strict=True)
        ]
        cells += [(row[key], row["intervals"][key]) for row in table["classes"] for key in ("f1",)]
        cells += [(table[key], table["intervals"][key]) for key in ("accuracy", "macro_f1")]
        assert all(low <= value <= high for value, (low, high) in cells)
        low, high = table["intervals"]["macro_f1"]
        widths.append(high - low)
    assert widths[1] < widths[0] / 2


def test_whole_groups_are_drawn(scores: Make) -> None:
    """In sites of one fate each, sixteen recordings are no more than four."""
    true = np.zeros(64, np.int64)
    told, label = scores(true)
    prob = np.zeros((64, 4))
    prob[np.arange(64), np.where(np.arange(64) < 32, 0, 2)] = 1
    told = ClassScores(LABELS, prob, true)
    wide = class_table(told, label, np.arange(64) // 16)
    alone = class_table(told, label)
    width = [np.diff(t["classes"][0]["intervals"]["recall"])[0] for t in (wide, alone)]
    assert width[0] > 2 * width[1]
    assert "4 groups only" in wide["intervals"]["note"]


def test_a_class_without_recordings_is_null_with_the_reason(scores: Make) -> None:
    told, label = scores(np.arange(30) % 3)
    table = class_table(told, label)
    row = table["classes"][3]
    assert [row[key] for key in ("n", "recall", "precision", "f1")] == [0, None, None, None]
    (reason,) = set(row["undefined"].values())
    assert reason.startswith("no recording of")
    assert set(row["intervals"].values()) == {None}
    assert table["shares"][3] == [None] * 4
    assert table["share_intervals"][3] == [None] * 4
    assert "no recordings: pump" in class_sentence(table)


def test_a_class_that_is_never_predicted_has_no_precision() -> None:
    prob = np.tile([0.7, 0.1, 0.1, 0.1], (8, 1))
    true = np.arange(8) % 2
    row = class_table(ClassScores(LABELS, prob, true), np.array(NAMES)[true])["classes"][1]
    assert (row["recall"], row["precision"], row["f1"]) == (0.0, None, 0.0)
    assert row["undefined"].keys() == {"precision"}
    assert row["undefined"]["precision"].startswith("no recording is called")
    assert row["intervals"]["recall"] == wilson(0, 4)
    assert row["intervals"]["precision"] is None


def test_labels_that_are_no_class_are_left_out_and_counted(scores: Make) -> None:
    told, label = scores(np.arange(40) % 4)
    view = label_view(["drip", "Burst", "ok", "rain"], LabelsConfig(leak=["drip", "burst"]), "x")
    known = true_classes(LABELS, view, told.true)
    assert known.tolist() == np.where(told.true == 3, -1, told.true).tolist()
    label = np.where(told.true == 3, "rain", label)
    table = class_table(ClassScores(LABELS, told.prob, known), label)
    assert (table["n"], table["left_out"]) == (30, {"rain": 10})


def test_nothing_to_judge(scores: Make) -> None:
    told, _ = scores(np.arange(4))
    nothing = ClassScores(LABELS, told.prob, np.full(4, -1))
    table = class_table(nothing, np.full(4, "rain"))
    assert (table["n"], table["accuracy"], table["macro_f1"]) == (0, None, None)
    assert table["undefined"].keys() == {"accuracy", "macro_f1"}
    assert class_sentence(table).startswith("no recording has a label")


def test_one_recording_has_no_interval(scores: Make) -> None:
    told, label = scores(np.array([2]), gap=50)
    table = class_table(told, label)
    note = table["intervals"].pop("note")
    assert table["intervals"] == {"accuracy": None, "macro_f1": None}
    assert "1 recordings" in note
    assert class_sentence(table).startswith("macro F1 1.0000; told right: ok 1 of 1")


def test_rates_of_many_matrices_are_those_of_each() -> None:
    matrices = np.random.default_rng(0).integers(0, 5, (6, 3, 3))
    matrices[2, 1] = 0
    together = class_rates(matrices)
    for index in range(6):
        for key, values in class_rates(matrices[index : index + 1]).items():
            np.testing.assert_array_equal(together[key][index], values[0])


def test_a_row_names_the_most_probable_class() -> None:
    told = ClassScores(LABELS, np.array([[0.1, 0.2, 0.6, 0.1]]), np.array([0]))
    assert told.row(0) == {
        "class": "ok", "prob_drip": 0.1, "prob_burst": 0.2, "prob_ok": 0.6, "prob_pump": 0.1,
    }  # fmt: skip
