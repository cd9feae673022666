from typing import Any

import numpy as np
import pytest

from leakdet.evaluation.audit_findings import (
    alarms,
    auroc_with_interval,
    display_name,
    remarks,
    same_spectrum,
)


def row(auroc: float | None, low: float = 0.6) -> dict[str, Any]:
    return {"auroc": auroc, "interval": None if auroc is None else [low, 1.0]}


def test_a_trivial_rival_is_named_with_both_numbers() -> None:
    (sentence,) = alarms(
        row(0.9), {"loudness": row(0.86), "duration": row(0.7), "class_prior": row(0.5)}
    )
    assert sentence.startswith(
        "A trivial trait predicts leaks about as well as the network (AUROC 0.90) or better: "
    )
    assert "loudness (0.86)" in sentence
    assert "duration" not in sentence


def test_a_strong_trait_is_named_though_the_network_is_better() -> None:
    (sentence,) = alarms(row(0.99), {"group sensor": row(0.85)})
    assert "knowing the sensor alone (0.85)" in sentence


@pytest.mark.parametrize(
    "baselines",
    [
        {"loudness": row(0.88, low=0.45)},  # luck is possible
        {"logistic_regression": row(0.95)},  # an honest model
        {"loudness": row(None)},
        {"loudness": row(0.75)},
        {},
    ],
)
def test_no_alarm_without_a_reason(baselines: dict[str, Any]) -> None:
    assert alarms(row(0.9), baselines) == []


def test_remarks_name_luck_and_the_simple_model() -> None:
    assert remarks(row(0.55, low=0.4), {}) == [
        "Too few recordings to rule out luck: AUROC 0.55, but anything from 0.40 to 1.00 is "
        "possible."
    ]
    worse = {"auroc": 0.2, "interval": [0.1, 0.3]}
    assert remarks(worse, {})[0].startswith("Worse than guessing here: AUROC 0.20 (95 % interval")
    assert remarks(row(0.5, low=0.4), {})[0].startswith("No better than guessing here")
    assert "adds nothing" in remarks(row(0.8), {"logistic_regression": row(0.81)})[0]
    assert remarks(row(0.8), {"logistic_regression": row(0.7)}) == []
    assert remarks(None, {"logistic_regression": row(0.7)}) == []


def test_ranking_says_none_without_both_classes() -> None:
    assert auroc_with_interval(np.array([1.0, -3.0]), np.array([True, True]), None) == {
        "auroc": None,
        "interval": None,
    }


def test_a_ranking_of_few_without_a_mistake_may_be_chance() -> None:
    few = auroc_with_interval(
        np.array([1.0, -3.0, 2.0, 0.0]), np.array([True, False, True, False]), None
    )
    assert few["auroc"] == 1.0
    assert few["interval"] == [pytest.approx(0.342, abs=1e-3), 1.0]  # Wilson's of 2 of 2
    assert alarms(row(0.9), {"loudness": few}) == []
    is_leak = np.arange(20) < 10
    many = auroc_with_interval(is_leak.astype(float), is_leak, None)
    assert many["interval"][0] > 0.7
    assert "loudness (1.00)" in alarms(row(0.9), {"loudness": many})[0]


def test_one_sound_is_known_again_at_another_level_and_another_sound_is_not() -> None:
    rng = np.random.default_rng(0)
    reference = rng.normal(0.0, 3.0, (50, 16))
    others = np.stack(
        [
            reference[7] + rng.normal(0, 0.01, 16),
            reference[7] + rng.normal(0, 0.3, 16),
            -reference[3],
        ]
    )
    assert same_spectrum(reference, others).tolist() == [True, False, False]


def test_close_spectra_are_found_as_by_comparing_every_pair() -> None:
    rng = np.random.default_rng(0)
    reference = rng.normal(0, 3, (60, 16))
    others = np.concatenate([reference[:20], rng.normal(0, 3, (20, 16))])
    others += rng.normal(0, 0.05, others.shape) * rng.choice([0.5, 1.5], (40, 1))
    pairs = np.sqrt(np.square(others[:, None] - reference[None]).mean(2))
    expected = (pairs < 0.05).any(1)
    assert 0 < expected.sum() < 20
    assert same_spectrum(reference, others).tolist() == expected.tolist()
    assert same_spectrum(reference[:0], others).tolist() == [False] * 40


def test_names_are_words() -> None:
    assert display_name("recording_order_in_session") == "the order of recording within the session"
    assert display_name("logistic_regression") == "logistic regression"
