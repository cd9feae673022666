"""The card of a model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from leakdet.cli.model_lines import UNJUDGED, model_lines
from leakdet.storage.model_card import CARD_KEY, read_card


def text_of(path: Path) -> str:
    """The card as one line, where any number of spaces is one, since long paths are wrapped."""
    return " ".join(" ".join(model_lines(path)).split())


def with_card(path: Path, example: Path, **changes: Any) -> Path:
    card = {**read_card(example), **changes}
    save_file({"a": np.zeros(2)}, path, metadata={CARD_KEY: json.dumps(card)})
    return path


def test_a_trained_model_tells_where_it_is_from_and_how_good_it_was(trained) -> None:
    text = text_of(trained.model)
    own = read_card(trained.model)["verdict"]
    for told in (
        f"from {trained.store}: 36 recordings in train",
        "network paper on windows",
        f"verdict {own['label']} (test)",
        "test 12 recordings, 6 with a leak: f1",
        "fitted on val",
        "intact yes, by its checksum",
        "settings the defaults, but ",
        " trainer.max_epochs=3 ",
    ):
        assert told in text
    for caution in own["cautions"]:
        assert caution in text


def test_a_checkpoint_is_not_judged(trained) -> None:
    text = text_of(trained.folder / "checkpoints" / "last.ckpt")
    assert f"verdict {UNJUDGED}" in text
    assert f"from {trained.store}; weights of epoch 3" in text
    assert "intact yes, by its checksum" in text


def test_what_an_older_file_does_not_say_is_unknown(tmp_path: Path, example_files) -> None:
    path = with_card(
        tmp_path / "m.safetensors", example_files.model, training={}, created_at=None, signal=None
    )
    text = text_of(path)
    assert "made at an unknown time" in text
    assert "from a store that the file does not name" in text
    assert "signal unknown" in text
    assert "settings unknown" in text
    assert "intact not verified: an older file, without a checksum" in text
    assert f"verdict {UNJUDGED}" in text


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"store": "/net/maple"}, "/net/maple"),
        ({"store": None, "stores": ["/net/maple", "oak"]}, "/net/maple, oak"),
        ({"store": None, "stores": []}, "the demo, synthetic recordings"),
        ({"store": None}, "the demo, synthetic recordings"),  # of an older file
    ],
)
def test_what_a_checkpoint_was_trained_on_is_what_was_asked_for(
    tmp_path: Path, example_files, data: dict[str, Any], told: str
) -> None:
    training = {"settings": {"data": data}, "recordings": {"train": 1, "val": 4}}
    path = with_card(tmp_path / "m.safetensors", example_files.model, training=training)
    assert f"from {told}: 1 recording in train, 4 recordings in val" in text_of(path)


def test_the_scores_of_several_sensors_are_told(tmp_path: Path, trained) -> None:
    metrics = read_card(trained.model)["metrics"]
    row = {"column": "sensor", "value": "b7", "n": 6, "positives": 2, "auroc": 0.75}
    row["intervals"] = {"auroc": [0.25, 1.0]}
    metrics["test"]["sensors"] = [row, {**row, "value": "", "auroc": None}]
    text = text_of(with_card(tmp_path / "m.safetensors", trained.model, metrics=metrics))
    told = "sensor b7: 6 recordings, 2 with a leak: auroc 0.75 [0.25, 1.00]"
    assert f"{told} sensor (not given): 6 recordings, 2 with a leak; no rate is defined" in text
    del metrics["test"]["sensors"]  # as in an older file
    older = text_of(with_card(tmp_path / "older.safetensors", trained.model, metrics=metrics))
    assert "test 12 recordings" in older
    assert "sensor b7" not in older


def test_the_labels_that_mean_a_leak_are_told(tmp_path: Path, example_files) -> None:
    path = tmp_path / "m.safetensors"
    two = {"mode": "binary", "names": ["NO_LEAK", "LEAK"], "leak_indices": [1]}
    several = {"mode": "multiclass", "names": ["drip", "ok", "burst"], "leak_indices": [0, 2]}
    for labels, told in (
        ({**two, "leak_labels": ["drip", "burst"]}, "frames); NO_LEAK, LEAK (drip, burst)"),
        (several, "frames); drip (leak), ok, burst (leak)"),
        ({"mode": "binary", "names": ["NO_LEAK", "LEAK"], "leak_index": 1}, "; NO_LEAK, LEAK "),
    ):
        assert told in text_of(with_card(path, example_files.model, labels=labels))


def test_the_lineage_counts_what_was_learnt_without_a_label(tmp_path: Path, example_files) -> None:
    step = {"at": None, "leak": 3, "no_leak": 3, "new": "n.csv", "from": "target"}
    step |= {"parent": "abc", "parent_path": "old.safetensors"}
    steps = [step, step | {"unverified": 6}, step | {"unverified": 0}]
    text = text_of(with_card(tmp_path / "m.safetensors", example_files.model, lineage=steps))
    assert text.count("3 with a leak and 3 without and 6 not verified, of n.csv") == 1
    assert text.count("3 with a leak and 3 without, of n.csv") == 2
