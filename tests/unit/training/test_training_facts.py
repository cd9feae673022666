"""What a model file keeps of its training."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from leakdet.config import TrainConfig
from leakdet.storage.opening import open_labelled, open_split
from leakdet.training.training_facts import met_by_training, training_facts

Configured = Callable[..., TrainConfig]


def test_facts_name_the_store_and_count_its_recordings(
    configured: Configured, opened: Any, demo_store: Path
) -> None:
    facts = training_facts(opened(configured()))
    assert facts["store"] == str(demo_store)
    counts = {name: open_split(demo_store, name).recordings for name in ("train", "val")}
    assert facts["recordings"] == counts
    assert facts["surrogates"] == 0
    assert set(facts["versions"]) == {"python", "leakdet", "torch", "lightning"}


def test_every_recording_of_train_and_val_was_met_and_none_of_test(
    configured: Configured, opened: Any, demo_store: Path
) -> None:
    met = met_by_training(opened(configured()), open_labelled(demo_store, "train"))
    assert met is not None
    roles = {
        name: set(met.roles_of(open_split(demo_store, name).texts("content_sha256").tolist()))
        for name in ("train", "val", "test")
    }
    assert roles == {"train": {"train"}, "val": {"val"}, "test": {""}}
    assert set(met.groups["site"]) == {"train", "val"}


def test_a_store_without_content_hashes_does_not_tell(
    configured: Configured, opened: Any, demo_store: Path, monkeypatch: Any
) -> None:
    data = opened(configured())
    monkeypatch.setattr(data.splits.val, "has", lambda _: False)
    assert met_by_training(data, open_labelled(demo_store, "train")) is None
