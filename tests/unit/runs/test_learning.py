"""Learning from beginning to end: what it writes, what it publishes, and what a stop leaves."""

import csv
import html
import json
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from leakdet.cli.cards import card_text
from leakdet.cli.describe import describe
from leakdet.core.errors import SettingsError
from leakdet.learning.gate import Outcome
from leakdet.learning.preparation import LearningInputs
from leakdet.runs import learning
from leakdet.runs.learning import learn_in, publish_only, unmet_test_scores
from leakdet.storage.model_file import load_mel_detector


def test_a_learning_writes_all_of_its_results_and_publishes(
    learner, tmp_path: Path, schema_errors, messages
) -> None:
    link, folder = tmp_path / "current", tmp_path / "run"
    publish_only(learner.config(None, f"learn.publish={link}"))
    before = learner.model.read_bytes()
    config = learner.config(learner.new(16), f"learn.publish={link}", "learn.folds=2")
    found = learn_in(folder, config)
    assert found.outcome.verdict == "better"
    assert link.resolve() == found.model == folder / "model.safetensors"
    assert learner.model.read_bytes() == before
    sources = load_mel_detector(found.model).sources
    assert sources is not None
    assert sources.counts == {8000: (8, 8)}  # those of the new sensor, which it is of alone
    content = json.loads((folder / "metrics.json").read_text())
    assert schema_errors(content) == []
    assert content["learn"]["from"] == "target"
    with (folder / "rounds.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["leak"], row["no_leak"], row["verdict"]) == ("8", "8", "better")
    assert float(row["auroc_after"]) == 1.0
    page = html.unescape((folder / "report.html").read_text())
    assert "Before and after" in page
    assert found.outcome.sentence in page
    assert f"go back  leakdet learn {learner.model}" in messages.text

    from_link = (f"model={link}", f"learn.publish={link}")
    second = learn_in(tmp_path / "run2", learner.config(learner.new(4, first=300), *from_link))
    assert link.resolve() == second.model
    assert f"go back  leakdet learn {found.model}" in messages.text
    card = load_mel_detector(second.model).card
    assert [step["parent_path"] for step in card["lineage"]] == [
        str(learner.model),
        str(found.model),
    ]
    assert second.outcome.verdict == "too few to tell"
    assert "8000 Hz stays unknown" in messages.text  # four of it, beside those of the store
    text = " ".join(card_text(describe(second.model)).split())
    assert "learnt 2. " in text
    assert f"parent {load_mel_detector(found.model).file_hash}" in text
    publish_only(learner.config(None, f"learn.publish={link}"))
    assert link.resolve() == learner.model


def test_a_worse_model_is_written_and_not_published(
    learner, tmp_path: Path, monkeypatch, messages
) -> None:
    link = tmp_path / "current"
    link.symlink_to(learner.model)
    monkeypatch.setattr("leakdet.learning.gate.Outcome.verdict", "worse")
    monkeypatch.setattr(learning, "train_on", lambda *_: load_mel_detector(learner.model))
    words = (f"learn.publish={link}", "learn.hold_out=site:C26")
    config = learner.config(learner.new(8), *words)
    found = learn_in(tmp_path / "run", config)
    assert found.model.exists()
    assert link.resolve() == learner.model
    assert "not moved" in messages.text


@pytest.mark.parametrize(
    "step", ["prepare", "train_on", "judge_group", "save_model", "write_csv", "write_results"]
)
def test_a_stop_at_any_moment_leaves_the_old_model_in_use(
    learner, tmp_path: Path, monkeypatch, step: str
) -> None:
    link, before = tmp_path / "current", learner.model.read_bytes()
    link.symlink_to(learner.model)

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(learning, "train_on", lambda *_: load_mel_detector(learner.model))
    monkeypatch.setattr(learning, step, stopped)
    words = (f"learn.publish={link}", "learn.hold_out=site:C26")
    config = learner.config(learner.new(8), *words)
    with pytest.raises(KeyboardInterrupt):
        learn_in(tmp_path / "run", config)
    assert link.resolve() == learner.model
    assert learner.model.read_bytes() == before
    made = tmp_path / "run" / "model.safetensors"
    assert made.exists() == (step in ("write_csv", "write_results"))
    if made.exists():
        assert load_mel_detector(made).card["lineage"]


def test_what_a_stopped_learning_left_is_cleared_before_it_is_repeated(
    learner, tmp_path: Path, monkeypatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(learning, "prepare", stopped)
    (tmp_path / "checkpoints").mkdir()
    for is_cleared in (False, True):  # checkpoints of something else stay
        with pytest.raises(KeyboardInterrupt):
            learn_in(tmp_path, learner.config(learner.new(4)))
        assert (tmp_path / "checkpoints").exists() != is_cleared
        (tmp_path / "added").mkdir(exist_ok=True)


def test_without_new_recordings_something_must_be_published(learner) -> None:
    with pytest.raises(SettingsError, match=r"learn\.new .*given"):
        publish_only(learner.config(None))


def test_a_file_in_place_of_the_link_is_refused_before_any_work(learner, tmp_path: Path) -> None:
    config = learner.config(learner.new(), f"learn.publish={learner.model}")
    with pytest.raises(SettingsError, match="only a link"):
        learn_in(tmp_path / "run", config)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("approach", "met", "judged", "kept"),
    [
        ("joint", "known", True, True),
        ("joint", None, True, False),
        ("joint", "known", False, False),
        ("target", "known", True, False),
    ],
)
def test_only_old_test_recordings_that_a_joint_model_never_met_are_kept(
    approach: str, met: str | None, judged: bool, kept: bool
) -> None:
    old = Mock(met=met)
    prepared = Mock(spec=LearningInputs, approach=Mock(), old=old)
    prepared.approach.name = approach
    scored = Mock(score=np.array([0.2, 0.9]), is_leak=np.array([False, True]))
    outcome = Mock(spec=Outcome, on_test=Mock(new=scored) if judged else None)
    found = unmet_test_scores(prepared, outcome)
    assert (found.scores.tolist() if found else None) == ([0.2, 0.9] if kept else None)
