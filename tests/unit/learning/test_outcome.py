"""The outcome in a sentence."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from leakdet.evaluation.scored_recordings import ScoredRecordings
from leakdet.learning.guard import Judged
from leakdet.learning.outcome import Outcome


def judged(verdict: str, count: int = 12, how: str = "12 new ones") -> Judged:
    zeros = np.zeros(count)
    scored = ScoredRecordings(
        "held_out", zeros, zeros, zeros > 0, zeros, zeros, zeros, np.arange(count + 1)
    )
    row: dict[str, Any] = {"metric": "auroc", "a": 0.9, "b": 0.5, "difference": -0.4}
    rows = [row | {"interval": [-0.6, -0.2], "note": None}]
    return Judged(scored, how, verdict, rows)


@pytest.mark.parametrize(
    ("found", "start"),
    [
        (judged("better"), "The new model is better. On 12 new ones: AUROC 0.90 before"),
        (judged("worse"), "The new model is worse."),
        (judged("too few to tell"), "Too few to tell: no difference is larger"),
        (judged("too few to tell", 4), "Too few to tell: 4 confirmed recordings judge"),
    ],
)
def test_the_verdict_comes_first(found: Judged, start: str) -> None:
    assert Outcome("target", found, None).sentence.startswith(start)


def test_where_the_old_model_has_met_all_nothing_is_compared() -> None:
    found = replace(judged("too few to tell"), differences=[])
    start = "Too few to tell. There is nothing to compare the old model by, on 12 new ones."
    assert Outcome("joint", found, None).sentence == start


def test_a_regression_on_the_old_test_set_is_named() -> None:
    on_test = judged("worse", how="the old store's 30 test recordings")
    target = Outcome("target", judged("better"), on_test)
    assert target.verdict == "better"
    assert "A regression: on the old store's 30 test recordings" in target.sentence
    assert "keep the old model for the old ones" in target.sentence
    assert Outcome("joint", judged("better"), on_test).verdict == "worse"
    assert Outcome("joint", judged("better"), on_test).content()["old_test"]["verdict"] == "worse"
