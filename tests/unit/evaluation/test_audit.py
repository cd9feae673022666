"""Planted faults: each must be result, and a store without one must stay unsuspected."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from leakdet.evaluation.audit import audit, duplicates
from leakdet.evaluation.traits import Traits
from leakdet.storage.opening import open_split


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
    assert result["not_computed"] == {
        "mains_hum": "the store has no mains_hum_50_db, and the mel starts at 100 Hz: build it "
        "again from the audio"
    }


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
    assert "file names hold no numbers" in result["not_computed"]["recording_order"]


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
    assert result["sentence"].startswith(
        "3 of 40 held-out recordings have the same sound as a training recording"
    )


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
    assert "no better than guessing, as expected" in fair["findings"][0]
    leaking = audit(train, judged, scores, null_aurocs=[1.0] * 6)
    if name == "test":
        assert "held-out labels leak into the training" in leaking["sentence"]
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
