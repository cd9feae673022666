"""The table of classes on a page says its counts, its shares, and what is not known."""

import numpy as np

from leakdet.detection.labels import LabelMap
from leakdet.evaluation.class_tables import ClassScores, class_table
from leakdet.reporting.class_page import class_page

LABELS = LabelMap("multiclass", ("drip", "ok", "pump"), (0,))


def page(true: list[int], predicted: list[int]) -> dict:
    label = np.array([*LABELS.names, "rain"])[true]
    found = class_page(
        class_table(ClassScores(LABELS, np.eye(3)[predicted], np.array(true)), label)
    )
    assert found is not None
    return found


def test_a_binary_model_has_none() -> None:
    assert class_page(None) is None


def test_rows_are_true_classes_and_columns_predicted_ones() -> None:
    found = page([0, 0, 0, 1, 1, 2, -1], [0, 0, 1, 1, 1, 0, 0])
    assert found["sentence"].startswith("The most probable class is true of 4 of 6 recordings; ")
    drip, _, pump = found["rows"]
    assert [cell["count"] for cell in drip["cells"]] == [2, 1, 0]
    assert [cell["kind"] for cell in drip["cells"]] == ["right", "wrong", ""]
    assert (drip["leak"], pump["leak"], drip["n"], pump["predicted"]) == (True, False, 3, 0)
    assert pump["metrics"][1] == "n/a: no recording is called so"
    assert (
        "Few recordings of drip (3), ok (2), pump (1): their numbers are uncertain"
        in found["notes"]
    )
    assert "Not in the table, since no class of the model: rain (1)" in found["notes"]


def test_a_class_without_recordings_says_so() -> None:
    found = page([0, 1], [0, 1])
    assert found["rows"][2]["metrics"] == ["n/a: no recording of this class"] * 3
    assert [cell["share"] for cell in found["rows"][2]["cells"]] == [None] * 3


def test_nothing_to_judge() -> None:
    assert page([-1], [0])["sentence"] == "No recording has a label that is a class of the model."
