"""The card of a model for model hubs: its head is YAML, and what is unknown is said to be."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file

from leakdet.cli.hub_card import hub_card
from leakdet.errors import InputError
from leakdet.storage.model_card import CARD_KEY, read_card


def parts(text: str) -> tuple[dict[str, Any], str]:
    """The YAML of the head, and the Markdown behind it."""
    _, head, body = text.split("---\n", 2)
    return yaml.safe_load(head), body


def with_card(path: Path, example: Path, **changes: Any) -> Path:
    card = {**read_card(example), **changes}
    save_file({"a": np.zeros(2)}, path, metadata={CARD_KEY: json.dumps(card)})
    return path


def test_the_head_is_what_hubs_read_and_holds_the_scores_of_test_alone(trained) -> None:
    head, _ = parts(hub_card(trained.folder))
    assert head["library_name"] == "leakdet"
    assert head["pipeline_tag"] == "audio-classification"
    assert head["license"] == "unknown"
    (index,) = head["model-index"]
    (result,) = index["results"]  # val chose the threshold
    assert result["dataset"]["split"] == "test"
    told = read_card(trained.model)["metrics"]["test"]["recording"]
    values = {metric["type"]: metric["value"] for metric in result["metrics"]}
    assert values["auroc"] == pytest.approx(told["auroc"], abs=1e-4)
    assert set(values) == set(head["metrics"])
    assert all("12 recordings, 95 % interval" in metric["name"] for metric in result["metrics"])


def test_the_text_says_what_from_what_how_good_and_what_not_to_use_it_for(trained) -> None:
    _, body = parts(hub_card(trained.model))
    own = read_card(trained.model)["verdict"]
    assert f"**{own['label']}** (test). {own['sentence']}" in body
    assert f"- data: {trained.store.name}; 36 recordings in train" in body
    assert str(trained.store.parent) not in body  # where it lay is no one else's business
    assert "- Deciding on a dig by it alone: its own evaluation does not bear that." in body
    assert "- Recordings of a lower rate than" in body
    headings = [line for line in body.splitlines() if line.startswith("## ")]
    assert len(headings) == 5


def test_what_a_file_does_not_say_is_unknown(tmp_path: Path, example_files) -> None:
    path = with_card(tmp_path / "m.safetensors", example_files.model, training={}, created_at=None)
    head, body = parts(hub_card(path))
    assert "model-index" not in head
    assert "metrics" not in head
    assert "- data: unknown; number of recordings unknown" in body
    assert "Not judged" in body
    assert "- Any decision, before it is evaluated" in body
    assert "the file keeps nothing to tell them by" in body


def test_a_model_of_the_demo_says_that_its_recordings_are_synthetic(
    tmp_path: Path, example_files
) -> None:
    training = {"settings": {"data": {"store": None}}}
    path = with_card(tmp_path / "m.safetensors", example_files.model, training=training)
    assert "- data: the demo of leakdet, synthetic recordings" in hub_card(path)


def test_several_stores_are_told_by_their_names(tmp_path: Path, example_files) -> None:
    stores = ["/net/maple street", "oak"]
    data = {"store": None, "stores": stores}
    training = {"settings": {"data": data}, "store": "/home/me/.cache/joined-1a2b"}
    path = with_card(tmp_path / "m.safetensors", example_files.model, training=training)
    assert "- data: maple street, oak; number of recordings unknown" in hub_card(path)


def test_a_place_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such model file"):
        hub_card(tmp_path / "none.safetensors")
    with pytest.raises(InputError, match="no model in this folder"):
        hub_card(tmp_path)
