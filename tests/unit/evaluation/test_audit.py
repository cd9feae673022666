import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from leakdet.evaluation.audit import (
    alarms,
    audit,
    baseline_aurocs,
    display_name,
    duplicates,
    null_result,
    null_run_findings,
    permuted_labels,
    remarks,
    same_spectrum,
)
from leakdet.evaluation.intervals import auroc_with_interval
from leakdet.evaluation.traits import Traits
from leakdet.storage.opening import open_split

BANDS = 8


def recordings(seed: int, count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Features in which leaks differ much, as where a true direction is there to be hit by luck."""
    rng = np.random.default_rng(seed)
    is_leak = np.arange(count) % 2 == 0
    return rng.normal(size=(count, BANDS)) + 1.5 * is_leak[:, None], is_leak


def halves(count: int = 40) -> list[tuple[np.ndarray, np.ndarray]]:
    rows = np.arange(count)
    return [(rows[: count // 2], rows[count // 2 :])]


def test_labels_are_permuted_within_each_part_and_nowhere_else() -> None:
    is_leak = np.arange(30) % 3 == 0
    train, val = np.arange(12), np.arange(12, 20)
    labels = permuted_labels(is_leak, [train, val])
    assert labels.shape == (1000, 30)
    assert (labels[:, train].sum(1) == is_leak[train].sum()).all()
    assert (labels[:, val].sum(1) == is_leak[val].sum()).all()
    assert (labels[:, 20:] == is_leak[20:]).all()
    assert labels[:, :20].mean(0) == pytest.approx(np.full(20, 1 / 3), abs=0.08)
    assert (labels == permuted_labels(is_leak, [train, val])).all()


def test_the_baseline_is_the_difference_of_class_means() -> None:
    """Unpermuted labels give the AUROC of that direction; 0.5 where a class is not scored."""
    features, is_leak = recordings(0)
    ((train, test),) = halves()
    fitted = features[train]
    direction = (fitted[is_leak[train]].mean(0) - fitted[~is_leak[train]].mean(0)) / fitted.var(0)
    score = features[test] @ direction
    expected = np.mean(score[is_leak[test]][:, None] > score[~is_leak[test]][None, :])
    one_class = np.where(np.arange(40) < 20, is_leak, False)
    areas = baseline_aurocs(features, np.stack([is_leak, ~is_leak, one_class]), halves())
    assert areas == pytest.approx([expected, expected, 0.5])
    assert expected > 0.9


@pytest.mark.parametrize(
    ("count", "judged"),
    [(1, "test"), (6, "test"), (6, "permuted too"), (6, "cross-validated")],
)
def test_the_interval_covers_a_half_in_95_of_100_seeds(count: int, judged: str) -> None:
    """The networks' permutations are drawn anew, as those of a linear network would be."""
    covered = []
    rows = np.arange(40)
    folds = halves()
    if judged == "cross-validated":
        folds = [(rows[rows % 4 != k], rows[rows % 4 == k]) for k in range(4)]
    for seed in range(100):
        features, is_leak = recordings(seed)
        parts = {"test": [rows[:20]], "permuted too": [rows[:20], rows[20:]]}.get(judged, [rows])
        networks = baseline_aurocs(features, permuted_labels(is_leak, parts, 1)[:count], folds)
        baseline = baseline_aurocs(features, permuted_labels(is_leak, parts)[:100], folds)
        low, high = null_result(networks.tolist(), baseline)["interval"]
        covered.append(low <= 0.5 <= high)
    assert np.mean(covered) >= 0.95


def test_labels_that_leak_are_found_by_several_permutations_and_not_by_one() -> None:
    """Where recordings differ much, a single permutation reaches 1 by luck."""
    features, is_leak = recordings(3)
    ((train, test),) = halves()
    baseline = baseline_aurocs(features, permuted_labels(is_leak, [train]), [(train, test)])
    grave, mild = null_run_findings(null_result([1.0] * 6, baseline))
    assert mild == []
    assert grave[0].startswith("Null run: on average over 6 permutations")
    assert "labels leak into" in grave[0]
    assert null_run_findings(null_result([1.0], baseline))[0] == []


def findings(aurocs: list[float], **more: Any) -> str:
    baseline = np.random.default_rng(0).normal(0.5, 0.02, 500)
    grave, mild = null_run_findings(null_result(aurocs, baseline, **more))
    assert grave == []
    return mild[0]


def test_what_chose_the_checkpoint_does_not_accuse() -> None:
    assert "Only a test split" in findings([0.9] * 4, chosen_on=True)


def test_what_a_null_run_means_is_said() -> None:
    assert "as expected" in findings([0.7, 0.4])
    assert "below guessing" in findings([0.2, 0.3])
    assert "0.46 to 0.54" in findings([0.5])


def row(auroc: float | None, low: float = 0.6) -> dict[str, Any]:
    return {"auroc": auroc, "interval": None if auroc is None else [low, 1.0]}


def test_a_trivial_rival_is_named_with_both_numbers() -> None:
    (sentence,) = alarms(
        row(0.9), {"loudness": row(0.86), "duration": row(0.7), "class_prior": row(0.5)}
    )
    assert "trivial trait" in sentence
    assert "(AUROC 0.90)" in sentence
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
    (luck,) = remarks(row(0.55, low=0.4), {})
    assert re.search(r"Too few .*AUROC 0\.55.* 0\.40 to 1\.00", luck)
    worse = {"auroc": 0.2, "interval": [0.1, 0.3]}
    assert remarks(worse, {})[0].startswith("Worse than guessing here: AUROC 0.20")
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
    assert "_" not in display_name("recording_order_in_session")
    assert display_name("logistic_regression") == "logistic regression"


@pytest.fixture
def audited(write_store: Any, planted: Any) -> Callable[..., dict[str, Any]]:
    """`audited(make)` audits a store of 40 training and 40 validation recordings that `make(number,
    is_leak)` describes.
    """

    def run(make: Callable[[int, bool], dict[str, Any]], network: bool = True) -> dict[str, Any]:
        recordings = [
            planted(
                "leak" if number % 2 else "other",
                **{"seed": number, **make(number, bool(number % 2))},
            )
            for number in range(80)
        ]
        store = write_store(train=recordings[:40], val=recordings[40:])
        train, val = (open_split(store, name) for name in ("train", "val"))
        scores = np.clip(
            0.5 + (val.label_id == 0) * 0.3 + np.random.default_rng(0).normal(0, 0.1, 40), 0, 1
        )
        return audit(train, val, scores if network else None)

    return run


def by_key(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in result["rows"]}


def test_a_fair_store_raises_no_alarm(audited: Any) -> None:
    result = audited(
        lambda number, is_leak: {"bump_db": 3.0 * is_leak, "groups": {"sensor": f"s{number % 3}"}}
    )
    assert result["sentence"] is None
    assert result["duplicates"] == 0
    rows = by_key(result)
    assert {"loudness", "duration", "dc_offset", "source_rate_hz", "clipped_fraction"} < rows.keys()
    assert {"spectral_centroid", "recording_order", "group sensor", "class_prior"} < rows.keys()
    assert rows["logistic_regression"]["auroc"] > 0.6  # an honest model detects the bump
    assert rows["class_prior"]["auroc"] == rows["source_rate_hz"]["auroc"] == 0.5
    assert result["not_computed"].keys() == {"mains_hum"}
    assert re.search(r"mains_hum_50_db.* 100 Hz", result["not_computed"]["mains_hum"])


def test_leaks_that_are_six_decibels_louder_are_found(audited: Any) -> None:
    result = audited(lambda _, is_leak: {"bump_db": 3.0 * is_leak, "level_db": 6.0 * is_leak})
    assert by_key(result)["loudness"]["auroc"] > 0.8
    assert "loudness" in result["sentence"]


def test_leaks_that_all_come_from_one_sensor_are_found(audited: Any) -> None:
    result = audited(
        lambda _, is_leak: {"bump_db": 3.0 * is_leak, "groups": {"sensor": "A" if is_leak else "B"}}
    )
    assert by_key(result)["group sensor"]["auroc"] == 1.0
    assert "knowing the sensor alone (1.00)" in result["sentence"]


def test_leaks_that_were_all_recorded_last_are_found(audited: Any) -> None:
    def make(number: int, is_leak: bool) -> dict[str, Any]:
        name = f"{'leak' if is_leak else 'other'}/20260301_{100 * is_leak + number:04}.wav"
        return {"bump_db": 3.0 * is_leak, "name": name}

    result = audited(make)
    assert by_key(result)["recording_order"]["auroc"] == 1.0
    assert "the order of recording" in result["sentence"]


def test_order_within_a_day_is_found_where_the_days_hide_it(audited: Any) -> None:
    def make(number: int, is_leak: bool) -> dict[str, Any]:
        day = number // 2 % 4
        return {
            "name": f"{day}_{100 * is_leak + number:04}.wav",
            "groups": {"session": f"day{day}"},
        }

    rows = by_key(audited(make))
    assert rows["recording_order_in_session"]["auroc"] == 1.0
    assert rows["recording_order"]["auroc"] < 0.8


def test_names_without_numbers_give_no_order(audited: Any) -> None:
    result = audited(lambda number, _: {"name": "x" * (number + 1)})
    assert "no numbers" in result["not_computed"]["recording_order"]


@pytest.mark.parametrize("level_db", [0.0, -4.0], ids=["copies", "quieter copies"])
def test_the_same_sound_in_both_splits_is_found(audited: Any, level_db: float) -> None:
    def make(number: int, is_leak: bool) -> dict[str, Any]:
        copy = number in (41, 43, 46)
        seed = number - 40 if copy else number
        # a copy at another level has another hash
        content = None if level_db == 0.0 else f"{number:064}"
        return {
            "bump_db": 3.0 * is_leak,
            "seed": seed,
            "content": content,
            "level_db": level_db * copy,
        }

    result = audited(make)
    assert result["duplicates"] == 3
    assert re.search("^3 of 40 .*same sound", result["sentence"])


def test_a_network_at_chance_is_reported(write_store: Any, planted: Any) -> None:
    recordings = [planted("leak" if number % 2 else "other", seed=number) for number in range(60)]
    store = write_store(train=recordings[:20], val=recordings[20:])
    train, val = (open_split(store, name) for name in ("train", "val"))
    scores = np.random.default_rng(1).uniform(size=40)
    assert audit(train, val, scores)["findings"][0].startswith(("Too few", "No better"))


@pytest.mark.parametrize("name", ["val", "test"])
def test_a_null_run_is_judged_by_its_permutations(
    write_store: Any, planted: Any, name: str
) -> None:
    recordings = [planted("leak" if number % 2 else "other", seed=number) for number in range(60)]
    store = write_store(train=recordings[:20], **{name: recordings[20:]})
    train, judged = (open_split(store, split) for split in ("train", name))
    scores = (judged.label_id == 0).astype(float)
    fair = audit(train, judged, scores, null_aurocs=[0.7, 0.4, 0.6])
    assert fair["sentence"] is None
    assert fair["null_run"]["permutations"] == [0.7, 0.4, 0.6]
    assert fair["null_run"]["auroc"] == pytest.approx(1.7 / 3)
    assert "as expected" in fair["findings"][0]
    leaking = audit(train, judged, scores, null_aurocs=[1.0] * 6)
    if name == "test":
        assert "labels leak into" in leaking["sentence"]
    else:  # it chose the checkpoint
        assert leaking["sentence"] is None
        assert "Only a test split" in leaking["findings"][0]
    assert audit(train, judged, scores)["null_run"] is None


def test_a_store_with_one_split_is_audited_within_itself(write_store: Any, planted: Any) -> None:
    recordings = [
        planted("leak" if n % 2 else "other", seed=n, level_db=8.0 * (n % 2)) for n in range(40)
    ]
    split = open_split(write_store(test=recordings), "test")
    result = audit(None, split)
    assert by_key(result)["loudness"]["auroc"] > 0.8
    assert "loudness" in result["sentence"]


class Hash(str):
    """A content hash that counts how often one is compared with another."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Hash.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("count", [100, 400])
def test_the_work_of_finding_copies_grows_with_the_recordings_not_their_pairs(count: int) -> None:
    bands = np.random.default_rng(0).normal(size=(2 * count, 4))
    names = [f"sound-{number}" for number in range(2 * count - 1)]
    content = np.array([Hash(name) for name in [*names, names[0]]], object)
    traits = Traits(bands, np.arange(2 * count), content=content)
    Hash.compared = 0
    copies = duplicates(traits, np.arange(count), np.arange(count, 2 * count))
    assert copies.nonzero()[0].tolist() == [count - 1]
    assert Hash.compared <= 4 * count
