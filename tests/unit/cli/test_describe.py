import json
import shutil
from pathlib import Path

import pytest

from leakdet.cli.cards import card_json, card_text
from leakdet.cli.describe import describe, run_row
from leakdet.core.errors import InputError


def text_of(path: Path) -> str:
    return card_text(describe(path))


def words_of(path: Path) -> str:
    """The text as one line, where any number of spaces is one, since long paths are wrapped."""
    return " ".join(text_of(path).split())


TABLE = {"n": 4, "positives": 2, "f1": 0.5, "intervals": {"f1": [0.1, 0.9]}}


@pytest.fixture
def stopped(trained, tmp_path: Path) -> Path:
    """A run that was stopped before its end."""
    folder = tmp_path / "stopped run"
    shutil.copytree(trained.folder, folder)
    (folder / "model.safetensors").unlink()
    return folder


def test_a_finished_run_has_its_command_and_its_model(trained) -> None:
    words = words_of(trained.folder)
    assert "command leakdet train experiment=smoke logger=csv" in words
    assert "state finished" in words
    assert f"model {trained.model}" in words
    assert json.loads(card_json(describe(trained.folder)))["model"]["path"] == str(trained.model)


def test_a_stopped_run_says_how_to_go_on(stopped: Path) -> None:
    assert "3 epochs checked" in words_of(stopped)
    assert f"leakdet train resume='{stopped}'" in words_of(stopped)
    shutil.rmtree(stopped / "checkpoints")
    assert "without a checkpoint" in words_of(stopped)


def test_a_learning_is_no_training_and_is_not_resumed(stopped: Path) -> None:
    given = stopped / ".hydra" / "overrides.yaml"
    given.write_text("- model=old.safetensors\n- learn.new=confirmed.csv\n")
    words = words_of(stopped)
    assert "leakdet learn model=old.safetensors learn.new=confirmed.csv" in words
    assert "repeat the command" in words
    assert "resume=" not in words


def test_few_warnings_are_shown(stopped: Path) -> None:
    (stopped / "warnings.txt").write_text("".join(f"odd {n}\n" for n in range(7)))
    text = text_of(stopped)
    assert "warning  odd 0\n" in text
    assert "odd 5" not in text
    assert "and 2 more" in text


def test_runs_are_compared(trained, stopped: Path) -> None:
    name, given, score, verdict = run_row(trained.folder)
    assert (name, verdict) == ("run", "Unproven")
    assert given.startswith("experiment=smoke")
    assert score.endswith("] test")
    assert run_row(stopped)[2:] == ("", "not finished")
    shutil.copytree(trained.folder, stopped.parent / "finished")
    text = text_of(stopped.parent)
    assert text.startswith("runs     ")
    assert "All of them: experiment=smoke" in text
    assert "Trainings" not in card_json(describe(stopped.parent))


def test_a_search(tmp_path: Path) -> None:
    (tmp_path / "trials" / "0000").mkdir(parents=True)
    (tmp_path / "study.db").touch()
    assert "not finished, 1 trial begun" in text_of(tmp_path)
    result = {
        "objective": "loss",
        "trials": {"complete": 3, "pruned": 1, "fail": 0},
        "best": {"trial": 2, "value": 0.25, "params": {"lr": 0.1}},
    }
    (tmp_path / "result.json").write_text(json.dumps(result))
    text = text_of(tmp_path)
    for told in ("3 complete, 1 pruned", "trial 2: loss 0.2500 on val", "lr=0.1", "not judged"):
        assert told in text
    (tmp_path / "result.json").write_text("[")
    with pytest.raises(InputError, match=r"result\.json: .*a search"):
        describe(tmp_path)


def test_a_cross_validation(tmp_path: Path) -> None:
    (tmp_path / "folds").mkdir()
    (tmp_path / "folds" / "a.json").touch()
    (tmp_path / "crossval.json").write_text(json.dumps({"settings": {"data": {"store": "s"}}}))
    text = words_of(tmp_path)
    assert "not finished, 1 fold done" in text
    assert f"crossval.out={tmp_path}" in text
    protocol = {"folds": [{}, {}], "recording": TABLE, "audit": {"findings": ["odd"]}}
    metrics = {
        "created_at": "2026-03-01T10:00:00+00:00",
        "created_by": "leakdet 0.1.0",
        "crossval": {"by-pipe": protocol},
    }
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    text = text_of(tmp_path)
    for told in ("2026-03-01 10:00 UTC", "by-pipe, 2 folds", "f1 0.50 [0.10, 0.90]", "odd"):
        assert told in text


def test_an_evaluation(tmp_path: Path) -> None:
    metrics = {
        "created_at": "2026-03-01T10:00:00+00:00",
        "created_by": "leakdet 0.1.0",
        "splits": ["test"],
        "test": {"recording": TABLE},
        "model": "m.safetensors",
    }
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    text = text_of(tmp_path)
    for told in ("model    m.safetensors", "test     4 recordings, 2 with a leak: f1 0.50"):
        assert told in text


def test_a_folder_of_parts(tmp_path: Path) -> None:
    rule = {"pooling": "mean", "threshold": 0.5, "policy": "max_f1", "fitted_on": "val"}
    content = {
        "started_at": "2026-03-01T10:00:00+00:00",
        "created_by": "leakdet 0.1.0",
        "model": {"path": "m.safetensors", "hash": "0123456789ab"},
        "decision_rule": rule,
        "outcome": None,
    }
    (tmp_path / "parts.json").write_text(json.dumps(content))
    text = text_of(tmp_path)
    for told in ("2026-03-01 10:00 UTC", "known as 0123456789ab", ">= 0.5000", "not finished"):
        assert told in text
    outcome = {"finished_at": None, "recordings": 3, "decisions": {"leak": 1, "failed": 2}}
    (tmp_path / "parts.json").write_text(json.dumps(content | {"outcome": outcome}))
    assert "3 recordings (1 leak, 2 failed)" in text_of(tmp_path)
    assert json.loads(card_json(describe(tmp_path)))["state"] == outcome


def test_a_store_tells_its_recordings_and_its_groups(demo_store: Path) -> None:
    words = words_of(demo_store)
    for told in (
        "by leakdet",
        "from demo",
        "splits by site, whole groups",
        "leak LEAK",
        "train 36 recordings (18 LEAK, 18 NOLEAK), 90 windows, 0.02 h",
        "group site: 6 in train, 2 in val, 2 in test; none in train",
        "signal 16 kHz",
        "intact yes, by its checksum",
        "note Verified",
    ):
        assert told in words


def test_a_store_without_its_notes_says_what_is_unknown(write_store, planted) -> None:
    store = write_store(train=[planted("leak", 0), planted("other", 1)])
    text = text_of(store)
    assert "by an unknown version" in text
    assert "no build.json" in text
    assert "group    none" in text


def test_the_first_recordings_left_out_are_named(write_store, planted) -> None:
    store = write_store(train=[planted("leak", 0)])
    left = [{"path": f"{n}.wav", "reason": "is silent"} for n in range(5)]
    (store / "build.json").write_text(json.dumps({"left_out": left}))
    text = text_of(store)
    assert "left out 5 recordings" in text
    assert "2.wav: is silent" in text
    assert "3.wav" not in text


def test_one_file_of_a_store(write_store, planted) -> None:
    store = write_store(val=[planted("leak", 0), planted("other", 1)])
    text = text_of(store / "val.h5")
    assert "val      2 recordings (1 leak, 1 other), 8 windows" in text
    assert "intact   yes" in text
    (store / "val.h5").write_bytes(b"no HDF5")
    with pytest.raises(InputError, match=r"val\.h5"):
        describe(store / "val.h5")
    with pytest.raises(InputError, match=r"val\.h5"):
        describe(store)


def test_a_folder_with_other_hdf5_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "other.h5").touch()
    with pytest.raises(InputError, match="a split"):
        describe(tmp_path)


def test_each_kind_is_found_by_its_files(trained, tmp_path: Path) -> None:
    for path, begin in (
        (trained.folder, "run "),
        (trained.folder.parent, "runs "),
        (trained.model, "model "),
        (trained.store, "store "),
        (trained.store / "val.h5", "split "),
    ):
        assert text_of(path).split()[0] == begin.strip(), path  # long paths wrap
    for name in ("study.db", "study.journal"):
        study = tmp_path / name.replace(".", "-")
        study.mkdir()
        (study / name).touch()
        assert text_of(study).split()[0] == "search"


def test_a_run_without_a_model_yet_is_a_run(tmp_path: Path) -> None:
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "overrides.yaml").write_text("- seed=1\n")
    assert "leakdet train seed=1" in text_of(tmp_path)


def test_the_link_to_the_latest_run_is_no_further_run(trained, tmp_path: Path) -> None:
    shutil.copytree(trained.folder, tmp_path / "a")
    (tmp_path / "latest").symlink_to("a")
    assert text_of(tmp_path).split()[:3] == ["runs", f"{tmp_path}:", "1"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing", "no such"),
        ("notes.txt", "nothing of leakdet"),
        ("d", "it holds x"),
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(
    name: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").touch()
    with pytest.raises(InputError, match=reason) as error:
        describe(tmp_path / name)
    assert "info takes a model file" in str(error.value)


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text(json.dumps({"accuracy": 1}))
    with pytest.raises(InputError, match="did not write"):
        text_of(tmp_path)
