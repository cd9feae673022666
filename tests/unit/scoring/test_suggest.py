import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakdet.scoring import suggest
from leakdet.scoring.suggest import Suggester, spread_choice, weight
from leakdet.tables.schema import Verdict, Window


def verdict(prob: float, features: list[float], **more: object) -> Verdict:
    given = {"path": f"/in/{prob}-{features[0]}.wav", **more}
    return Verdict(
        decision="leak" if prob >= 0.5 else "no_leak", leak_prob=prob, threshold=0.5,
        features=np.array(features, np.float32), **given,
    )  # fmt: skip


def chosen(verdicts: list[Verdict], most: int = 3) -> list[float | None]:
    suggester = Suggester(most)
    for item in verdicts:
        suggester.add(item)
    return [item.verdict.leak_prob for item in suggester.choose()]


def test_the_weight_is_one_at_the_threshold_and_for_the_unfamiliar() -> None:
    assert weight(verdict(0.5, [0.0])) == 1.0
    assert weight(verdict(0.0, [0.0])) == weight(verdict(1.0, [0.0])) == 0.05
    assert weight(verdict(0.75, [0.0])) == pytest.approx(0.5)
    assert weight(replace(verdict(0.2, [0.0]), threshold=0.4)) == pytest.approx(0.5)
    assert weight(verdict(1.0, [0.0], familiarity=1.7)) == 1.0
    assert weight(verdict(0.75, [0.0], familiarity=0.5)) == pytest.approx(0.75)
    assert weight(replace(verdict(1.0, [0.0]), threshold=1.0)) == 1.0
    assert weight(replace(verdict(1.0, [0.0]), reason="other_source")) == 1.0


def test_the_least_certain_comes_first_and_then_what_is_unlike_it() -> None:
    # 0.49 sounds like 0.51; 0.6 is a little, 0.3 is far away
    near = [verdict(0.49, [0.2, 0.0]), verdict(0.51, [0.0, 0.0])]
    assert chosen([*near, verdict(0.6, [3.0, 0.0]), verdict(0.3, [0.0, 9.0])]) == [0.49, 0.3, 0.6]


def test_copies_are_suggested_once_and_the_choice_ends_there() -> None:
    copies = [verdict(prob, [1.0, 2.0]) for prob in (0.5, 0.51, 0.52)]
    assert chosen(copies) == [0.5]
    suggester = Suggester(3)
    for item in copies:
        suggester.add(item)
    assert re.search("1 of 3 recordings; .*copies", suggester.sentence(1))


def test_what_teaches_nothing_is_passed_over_and_counted() -> None:
    suggester = Suggester(5)
    for item in (
        verdict(0.5, [0.0], flags=["met_in_training"]),
        verdict(0.5, [0.0], reason="short"),
        verdict(0.5, [0.0], error="no sound file"),
        verdict(0.5, [0.0], path="/in/\udcff.wav"),
        replace(verdict(0.5, [0.0]), leak_prob=None, features=None),
        verdict(0.9, [0.0], reason="unfamiliar", familiarity=1.2),
    ):
        suggester.add(item)
    suggestions = suggester.choose()
    assert [item.verdict.reason for item in suggestions] == ["unfamiliar"]
    assert suggestions[0].why == "unlike the training recordings"
    sentence = suggester.sentence(1)
    for why in ("known from training", "short", "unreadable", "without sound", "no table can hold"):
        assert f"1 {why}" in sentence or f"1 with names that {why}" in sentence
    assert sentence.startswith("1 of 6 recordings")


def test_the_reason_names_what_speaks_for_a_recording() -> None:
    suggester = Suggester(3)
    for item in (verdict(0.5, [0.0]), verdict(0.99, [6.0]), verdict(0.9, [4.0], familiarity=0.9)):
        suggester.add(item)
    assert [item.why for item in suggester.choose()] == [
        "near the threshold",
        "unlike the training recordings; unlike those above (4.0 dB)",
        "unlike those above (2.0 dB)",
    ]


def test_windows_are_not_kept() -> None:
    suggester = Suggester(1)
    suggester.add(replace(verdict(0.5, [0.0]), windows=[Window(0.0, 1.0, 0.5)]))
    assert suggester.choose()[0].verdict.windows == []


def test_of_very_many_recordings_the_certain_ones_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suggest, "MAX_KEPT", 10)
    suggester = Suggester(4)
    for number in range(95):
        suggester.add(verdict(0.5 + number / 200, [float(number)]))
        assert len(suggester._verdicts) < 20
    assert "of 95 recordings" in suggester.sentence(4)
    assert suggester.choose()[0].verdict.leak_prob == 0.5


@given(seed=st.integers(0, 999), rows=st.integers(1, 30), most=st.integers(1, 12))
def test_each_choice_is_the_best_that_is_left(seed: int, rows: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 4, (rows, 2)).astype(np.float32)  # with copies
    weights = rng.uniform(0.05, 1, rows)
    picked = spread_choice(features, weights, most)
    numbers = [row for row, _ in picked]
    assert weights[numbers[0]] == weights.max()
    for place in range(1, len(picked)):
        before = features[numbers[:place]]
        distance = np.sqrt(np.square(features[:, None] - before).mean(2)).min(1)
        gain = weights * distance
        assert gain[numbers[place]] == pytest.approx(gain.max())
        assert picked[place][1] == pytest.approx(distance[numbers[place]])
    distinct = len(np.unique(features, axis=0))
    assert len(set(numbers)) == len(numbers) == min(most, distinct)
