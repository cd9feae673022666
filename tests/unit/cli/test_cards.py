import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file

from leakdet.cli.cards import (
    UNJUDGED,
    Card,
    Fact,
    card_json,
    card_markdown,
    card_text,
    rates_text,
    runs_text,
    signal_text,
)
from leakdet.cli.describe import describe_model, settings_text
from leakdet.core.errors import InputError
from leakdet.storage.model_card import CARD_KEY, model_in, read_card

TABLE = {
    "n": 12,
    "positives": 6,
    "f1": 0.912,
    "auroc": None,
    "recall": 0.83,
    "intervals": {"f1": [0.8, 1.0], "auroc": None, "recall": None},
}


def lines_of(*facts: Fact) -> list[str]:
    return card_text(Card("model", Path("m"), facts)).splitlines()


def test_a_long_text_goes_on_below_in_whole_words() -> None:
    text = f"{'word ' * 30}/a/path/that-is-too-long-for-one-line/{'x' * 90}"
    lines = lines_of(Fact("from", text))
    assert " ".join(found.strip() for found in lines) == f"from     {text}"
    assert all(len(found) <= 80 for found in lines[:-1])
    assert all(found.startswith(" " * 9) for found in lines[1:])


def test_json_has_values_lists_of_repeated_names_and_the_cards_within() -> None:
    facts = (Fact("made", "in March", {"at": 3}), Fact("note", "a\u00a0b"), Fact("", "more"))
    card = Card("run", Path("r"), [*facts, Fact("note", "c"), Card("model", Path("m"), [])])
    assert json.loads(card_json(card)) == {
        "kind": "run",
        "path": "r",
        "made": {"at": 3},
        "note": ["a b", "c"],
        "model": {"kind": "model", "path": "m"},
    }


def test_rates_have_their_intervals_and_undefined_ones_are_left_out() -> None:
    text = rates_text(TABLE)
    assert text.replace("\u00a0", " ") == (
        "12 recordings, 6 with a leak: f1 0.91 [0.80, 1.00], recall 0.83"
    )
    assert rates_text({"n": 2, "positives": 0}).startswith("2 recordings, 0 with a leak; no rate")


def test_a_rate_stays_beside_its_interval() -> None:
    lines = lines_of(Fact("test", rates_text(TABLE) * 3))
    assert not any(found.rstrip().endswith(("0.80,", "0.91")) for found in lines)


def test_settings_are_those_that_differ() -> None:
    assert settings_text({"seed": 0}) == "the defaults"
    assert settings_text({"seed": 3, "new": 1}) == "the defaults, but seed=3"
    assert settings_text({}).startswith("unknown")


def test_a_signal_in_words() -> None:
    signal = {
        "sample_rate_hz": 16000,
        "window_samples": 16000,
        "window_hop_samples": 8000,
        "n_mels": 64,
        "fmin_hz": 300.0,
        "fmax_hz": "auto",
    }
    assert signal_text(signal) == (
        "16 kHz, windows of 1 s every 0.5 s, 64 mel bands from 300 to auto"
    )
    assert signal_text(None).startswith("unknown")


def text_of(path: Path) -> str:
    """The card as one line, where any number of spaces is one, since long paths are wrapped."""
    return " ".join(card_text(describe_model(path)).split())


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


def test_json_of_a_model_has_its_numbers(trained) -> None:
    content = json.loads(card_json(describe_model(trained.model)))
    card = read_card(trained.model)
    assert content["decides"] == card["decision_rule"]
    assert content["test"]["recording"] == card["metrics"]["test"]["recording"]
    assert content["verdict"] == card["verdict"]
    assert content["intact"] is True


def test_a_checkpoint_is_not_judged(trained) -> None:
    text = text_of(trained.folder / "checkpoints" / "last.ckpt")
    assert f"verdict {UNJUDGED}" in text
    assert f"from {trained.store}; weights of epoch 3" in text
    assert "intact yes, by its checksum" in text


def test_a_file_without_notes_is_unknown(tmp_path: Path, example_files) -> None:
    path = with_card(
        tmp_path / "m.safetensors", example_files.model, training={}, created_at=None, signal=None
    )
    text = text_of(path)
    assert "made at an unknown" in text
    assert "from a store" in text
    assert "signal unknown" in text
    assert "settings unknown" in text
    assert "intact not verified" in text
    assert f"verdict {UNJUDGED}" in text


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"store": "/net/maple", "stores": []}, "/net/maple"),
        ({"store": None, "stores": ["/net/maple", "oak"]}, "/net/maple, oak"),
        ({"store": None, "stores": []}, "the demo, synthetic recordings"),
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
    assert f"{told} sensor (not given): 6 recordings, 2 with a leak; no rate" in text


def test_the_labels_that_mean_a_leak_are_told(tmp_path: Path, example_files) -> None:
    path = tmp_path / "m.safetensors"
    two = {"mode": "binary", "names": ["NO_LEAK", "LEAK"], "leak_indices": [1]}
    several = {"mode": "multiclass", "names": ["drip", "ok", "burst"], "leak_indices": [0, 2]}
    for labels, told in (
        ({**two, "leak_labels": ["drip", "burst"]}, "frames); NO_LEAK, LEAK (drip, burst)"),
        (several, "frames); drip (leak), ok, burst (leak)"),
        ({"mode": "binary", "names": ["NO_LEAK", "LEAK"], "leak_indices": [1]}, "; NO_LEAK, LEAK "),
    ):
        assert told in text_of(with_card(path, example_files.model, labels=labels))


def test_the_lineage_counts_what_was_learnt_without_a_label(tmp_path: Path, example_files) -> None:
    step = {"at": None, "leak": 3, "no_leak": 3, "new": "n.csv", "from": "target"}
    step |= {"parent": "abc", "parent_path": "old.safetensors"}
    steps = [step, step | {"unverified": 6}, step | {"unverified": 0}]
    text = text_of(with_card(tmp_path / "m.safetensors", example_files.model, lineage=steps))
    counts = re.findall(r"3 with a leak and 3 without( and 6 not verified)?, of n\.csv", text)
    assert counts == ["", " and 6 not verified", ""]


def markdown(path: Path) -> str:
    return card_markdown(describe_model(model_in(path)))


def parts(text: str) -> tuple[dict[str, Any], str]:
    """The YAML of the head, and the Markdown behind it."""
    _, head, body = text.split("---\n", 2)
    return yaml.safe_load(head), body


def test_the_head_is_what_hubs_read_and_holds_the_scores_of_test_alone(trained) -> None:
    head, _ = parts(markdown(trained.folder))
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
    _, body = parts(markdown(trained.model))
    own = read_card(trained.model)["verdict"]
    assert f"**{own['label']}** (test). {own['sentence']}" in body
    assert f"- data: {trained.store.name}; 36 recordings in train" in body
    assert str(trained.store.parent) not in body  # where it lay is no one else's business
    assert "- Deciding on a dig" in body
    assert "- Recordings of a lower rate" in body
    headings = [line for line in body.splitlines() if line.startswith("## ")]
    assert len(headings) == 5


def test_what_a_file_does_not_say_is_unknown(tmp_path: Path, example_files) -> None:
    path = with_card(tmp_path / "m.safetensors", example_files.model, training={}, created_at=None)
    head, body = parts(markdown(path))
    assert "model-index" not in head
    assert "metrics" not in head
    assert "- data: unknown; " in body
    assert "Not judged" in body
    assert "- Any decision" in body
    assert "the file keeps nothing" in body


def test_a_model_of_the_demo_says_that_its_recordings_are_synthetic(
    tmp_path: Path, example_files
) -> None:
    training = {"settings": {"data": {"store": None, "stores": []}}}
    path = with_card(tmp_path / "m.safetensors", example_files.model, training=training)
    assert "- data: the demo" in markdown(path)


def test_several_stores_are_told_by_their_names(tmp_path: Path, example_files) -> None:
    stores = ["/net/maple street", "oak"]
    data = {"store": None, "stores": stores}
    training = {"settings": {"data": data}, "store": "/home/me/.cache/joined-1a2b"}
    path = with_card(tmp_path / "m.safetensors", example_files.model, training=training)
    assert "- data: maple street, oak; " in markdown(path)


def test_a_place_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such model file"):
        markdown(tmp_path / "none.safetensors")
    with pytest.raises(InputError, match="no model in"):
        markdown(tmp_path)


def test_what_all_runs_were_given_stands_once() -> None:
    text = runs_text(
        [
            ("0", "data.store=s seed=0", "0.90 [0.80, 1.00] test", "Use with care"),
            ("1", "data.store=s seed=1", "", "not finished"),
        ]
    )
    assert text.count("data.store=s") == 1
    assert text.endswith("All of them: data.store=s")
    for told in ("seed=0", "seed=1", "[0.80, 1.00]", "Use with care", "not finished"):
        assert told in text
    assert max(map(len, text.splitlines())) <= 80


def test_one_run_keeps_its_settings_and_brackets_survive() -> None:
    text = runs_text([("a[red]b", "crossval.where=[x]", "", "")])
    assert "a[red]b" in text
    assert "crossval.where=[x]" in text
    assert "All of them" not in text


def test_long_settings_of_runs_stay_within_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    given = "augment.interference=/data/sounds/of/rain-and-traffic seed=1"
    name, score = "2026-11-29_12-04-59", "0.90 [0.80, 1.00] test"
    text = runs_text([(name, given, score, "Use with care"), (name, "seed=2", score, "")])
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("seed=") == 2
