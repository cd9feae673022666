"""Cross-validation from a store to its tables, pages and refusals."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakdet.config import (
    AugmentConfig,
    CrossvalConfig,
    CrossvalSettings,
    DataConfig,
    NetworkConfig,
    OptimizerConfig,
    StopConfig,
)
from leakdet.core.errors import InputError, SettingsError
from leakdet.core.messages import messages_on_screen
from leakdet.crossvalidation.fold_runs import write_fold
from leakdet.runs import crossval
from leakdet.runs.crossval import cross_validate

TRAINER = {"accelerator": "cpu", "devices": 1, "max_epochs": 8, "log_every_n_steps": 1}
TRAINER |= {"enable_model_summary": False}


def config(store: Path, shuffle: bool = False, **settings: Any) -> CrossvalConfig:
    return CrossvalConfig(
        data=DataConfig(
            store=str(store), batch_size=32, sampling="balanced", shuffle_labels=shuffle
        ),
        network=NetworkConfig(name="linear", time_pool=1),
        augment=AugmentConfig(eq_db=0.0),
        optimizer=OptimizerConfig(lr=0.05, warmup_epochs=0.0),
        patience=10,
        stop=StopConfig("val"),
        trainer=TRAINER,
        crossval=CrossvalSettings(**settings),
    )


@pytest.fixture
def held(
    site_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[Any, Any, str]]:
    """Cross-validate; return the metrics.json, the rows of predictions.csv and the output."""

    def run(name: str = "out", **settings: Any) -> tuple[Any, Any, str]:
        folder = tmp_path / name
        with messages_on_screen("full"):
            cross_validate(config(site_store, **settings), site_store, folder)
        metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        with (folder / "predictions.csv").open(newline="", encoding="utf-8") as file:
            return metrics["crossval"], list(csv.DictReader(file)), capsys.readouterr().out

    return run


def test_each_recording_is_scored_once_by_a_network_trained_without_its_site(
    held: Any, tmp_path: Path, schema_errors: Any
) -> None:
    metrics, rows, printed = held(group_by="site")
    content = json.loads((tmp_path / "out" / "metrics.json").read_text(encoding="utf-8"))
    assert schema_errors(content) == []
    content["crossval"]["leave-out-site"]["folds"][0]["threshold"] = None
    assert len(schema_errors(content)) == 1
    result = metrics["leave-out-site"]
    assert len(rows) == 24
    assert len({row["recording_id"] for row in rows}) == 24
    # A fold is named after the site that it holds out.
    assert all(row["fold"] == row["site"] for row in rows)
    assert result["recording"]["auroc"] > 0.9
    tp = sum(row["is_leak"] == "1" and row["decision"] == "leak" for row in rows)
    assert result["recording"]["tp"] == tp
    assert all(
        (row["decision"] == "leak") == (float(row["leak_prob"]) >= float(row["threshold"]))
        for row in rows
    )
    for fold in result["folds"]:
        assert fold["recordings"]["train"] + fold["recordings"]["val"] == 16
        assert fold["recordings"]["test"] == 8
    # The trainings leave nothing else behind.
    assert len(list((tmp_path / "out" / "folds").iterdir())) == 3
    assert "AUROC of the network" in printed
    assert "AUROC of logistic regression" in printed
    assert "AUROC of loudness" in printed
    page_folder = tmp_path / "out" / "leave-out-site"
    of_page = json.loads((page_folder / "metrics.json").read_text(encoding="utf-8"))
    assert schema_errors(of_page) == []
    assert of_page["held_out"]["recording"]["tp"] == tp
    with (page_folder / "recordings.csv").open(newline="", encoding="utf-8") as file:
        assert {row["recording_id"] for row in csv.DictReader(file)} == {
            row["recording_id"] for row in rows
        }
    page = (page_folder / "report.html").read_text(encoding="utf-8")
    assert re.search("held out of training: 12 recordings with a leak", page)
    assert "never share a site" in page
    assert "Too few values of site" in page
    assert "at each fold&#39;s own threshold" in page or "at each fold's own threshold" in page


def test_a_finished_fold_is_not_run_again(held: Any, tmp_path: Path) -> None:
    first, _, _ = held(group_by="sensor")
    files = sorted((tmp_path / "out" / "folds").iterdir())
    stamps = [file.stat().st_mtime_ns for file in files]
    second, _, printed = held(group_by="sensor")
    assert "2 of 2 folds are done" in printed
    assert second == first
    assert [file.stat().st_mtime_ns for file in files] == stamps
    files[0].unlink()
    third, _, printed = held(group_by="sensor")
    assert "1 of 2 folds are done" in printed
    without_times = [
        [{**f, "seconds": 0} for f in r["leave-out-sensor"]["folds"]] for r in (first, third)
    ]
    # A fold that is run again gives the same numbers.
    assert without_times[0] == without_times[1]
    files[1].write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="Remove it"):
        held(group_by="sensor")


def test_folds_of_other_settings_are_not_mixed(held: Any) -> None:
    held(group_by="sensor")
    with pytest.raises(InputError, match=r"settings\.crossval\.val_fraction differ"):
        held(group_by="sensor", val_fraction=0.4)
    metrics, rows, _ = held(group_by="sensor", repeats=2)  # a further repeat only adds folds
    assert len(rows) == 48
    assert metrics["leave-out-sensor"]["auroc_of_repeats"].keys() == {"0", "1"}


def test_several_protocols_each_with_its_recordings(held: Any) -> None:
    protocols = {
        "by sensor": {"group_by": "sensor", "where": {"site": ["s0", "s1"]}},
        "by recording": {"group_by": "recording", "folds": 2},
    }
    metrics, rows, printed = held(protocols=protocols)
    assert metrics.keys() == protocols.keys()
    assert metrics["by sensor"]["recording"]["n"] == 16
    assert metrics["by recording"]["recording"]["n"] == 24
    assert {row["site"] for row in rows if row["protocol"] == "by sensor"} == {"s0", "s1"}
    assert "by sensor: holds out sensor, site s0|s1" in printed


def test_by_default_it_holds_out_what_the_store_was_split_by(held: Any, site_store: Path) -> None:
    build = {"settings": {"split": {"group_by": ["site"]}}}
    (site_store / "build.json").write_text(json.dumps(build))
    metrics, rows, printed = held()
    assert metrics.keys() == {"leave-out-site"}
    assert {row["fold"] for row in rows} == {"s0", "s1", "s2"}
    assert "held out by site, " in printed
    _, _, printed = held("single", group_by="recording", folds=2)
    assert "the store was split" not in printed


def test_recordings_without_a_group_are_told_and_counted(
    write_store: Any, planted: Any, tmp_path: Path, capsys: Any, schema_errors: Any
) -> None:
    sites = ["s0", "s1", ""]
    recordings = [
        planted(
            "leak" if n % 2 else "other",
            seed=n,
            bump_db=8.0 * (n % 2),
            groups={"site": sites[n // 8]},
        )
        for n in range(20)
    ]
    store, folder = write_store(train=recordings), tmp_path / "out"
    with messages_on_screen():
        cross_validate(config(store, group_by="site"), store, folder)
    printed = capsys.readouterr().out
    assert re.search("4 recordings are left out.* site", printed)
    content = json.loads((folder / "metrics.json").read_text())
    assert schema_errors(content) == []
    result = content["crossval"]["leave-out-site"]
    assert len(result["without_group"]) == 4
    assert result["recording"]["n"] == 16
    page = (folder / "leave-out-site" / "report.html").read_text(encoding="utf-8")
    assert "4 recordings with a blank site took no part" in page


def test_shuffled_labels_end_at_chance(site_store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "null"
    settings = {"group_by": "recording", "folds": 2}
    null = config(site_store, shuffle=True, **settings)
    null.data.shuffle_repeats = 3
    cross_validate(null, site_store, folder)
    result = json.loads((folder / "metrics.json").read_text())["crossval"]["leave-out-recording"]
    assert 0.2 < result["recording"]["auroc"] < 0.8
    null_run = result["audit"]["null_run"]
    assert null_run["permutations"] == list(result["auroc_of_repeats"].values())
    assert len(null_run["permutations"]) == 3
    low, high = null_run["interval"]
    assert low <= 0.5 <= high
    assert result["audit"]["sentence"] is None
    assert result["audit"]["findings"][0].startswith("Null run: on average over 3 permutations")
    page = (folder / "leave-out-recording" / "report.html").read_text(encoding="utf-8")
    assert "labels were shuffled" in page


def test_a_held_out_group_with_a_copy_in_training_is_reported(
    write_store: Any, planted: Any, tmp_path: Path
) -> None:
    def recording(number: int) -> Any:
        bump = 8.0 * (number % 2)
        groups = {"site": f"s{number // 6}"}
        return planted(
            "leak" if number % 2 else "other", seed=number % 7, bump_db=bump, groups=groups
        )

    folder = tmp_path / "out"
    store = write_store(train=[recording(number) for number in range(18)])
    cross_validate(config(store, group_by="site"), store, folder)
    result = json.loads((folder / "metrics.json").read_text())["crossval"]["leave-out-site"]
    assert result["audit"]["duplicates"] > 0
    assert "same sound" in result["audit"]["sentence"]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {"group_by": "pipe"},
            InputError,
            "'pipe' .*group column.* label, sensor, site",
        ),
        ({"where": {"site": "s9"}}, InputError, "no recording has s9; there are s0, s1, s2"),
        ({"group_by": "sensor", "folds": 3}, InputError, "2 groups cannot make 3 folds: A, B"),
        (
            {"group_by": "site", "where": {"site": ["s0", "s1"], "label": "leak"}},
            InputError,
            "4 leaks and 0 others are left",
        ),
        ({"folds": 1}, SettingsError, r"crossval\.folds=1"),
        ({"part": 2, "parts": 2}, SettingsError, r"crossval\.part=2"),
        ({"val_fraction": 1.0}, SettingsError, r"crossval\.val_fraction=1\.0"),
        ({"protocols": {"x": {"group": "site"}}}, SettingsError, r"crossval\.protocols\.x"),
        ({"where": ["site"]}, SettingsError, r"crossval\.where"),
        ({"group_by": []}, SettingsError, r"crossval\.group_by"),
    ],
)
def test_wrong_settings_are_refused_before_any_training(
    site_store: Path, tmp_path: Path, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        cross_validate(config(site_store, **settings), site_store, tmp_path / "out")
    assert not (tmp_path / "out" / "folds").exists()


def test_the_last_part_pools_the_folds(
    held: Any, tmp_path: Path, capsys: Any, site_store: Path
) -> None:
    folder = tmp_path / "parts"
    settings = {"group_by": "sensor", "parts": 2}
    with messages_on_screen():
        cross_validate(config(site_store, part=0, **settings), site_store, folder)
    assert "1 of 2 folds are left" in capsys.readouterr().out
    assert not (folder / "metrics.json").exists()
    metrics, rows, _ = held("parts", part=1, **settings)
    assert metrics["leave-out-sensor"]["recording"]["n"] == len(rows) == 24


def test_of_parts_that_end_at_once_one_pools_and_prints(
    site_store: Path, tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part also pools where another one stopped while it did."""
    folder = tmp_path / "parts"
    parts = [config(site_store, group_by="sensor", parts=2, part=part) for part in (0, 1)]
    pages: list[Path] = []

    def both_folds_are_there(path: Path, outcome: Any) -> None:
        """Let the other part look while this one has written its fold and not looked yet."""
        write_fold(path, outcome)
        with monkeypatch.context() as plain:
            plain.setattr(crossval, "write_fold", write_fold)
            plain.setattr(crossval, "write_results", stops)
            with pytest.raises(KeyboardInterrupt):
                cross_validate(parts[0], site_store, folder)
            plain.setattr(crossval, "write_results", writes)
            cross_validate(parts[0], site_store, folder)

    def stops(*_: Any) -> None:
        raise KeyboardInterrupt

    def writes(page: Path, _: Any) -> None:
        pages.append(page)

    monkeypatch.setattr(crossval, "write_results", writes)
    with messages_on_screen("full"):
        cross_validate(parts[0], site_store, folder)
        capsys.readouterr()
        monkeypatch.setattr(crossval, "write_fold", both_folds_are_there)
        cross_validate(parts[1], site_store, folder)
    first_stopped, _, printed = capsys.readouterr().out.rpartition("metrics  ")
    # of the stopped part, and of its heir
    assert first_stopped.count("sensor A: AUROC") == 2
    assert "sensor A: AUROC" not in printed
    assert re.search(rf"pooled all 2 folds, .*{re.escape(str(folder))}\n$", printed)
    assert pages == [folder / "leave-out-sensor"]
    with messages_on_screen("full"):
        cross_validate(parts[1], site_store, folder)
    assert "sensor A: AUROC" in capsys.readouterr().out  # repeated, it shows the tables again


def test_folds_that_were_removed_meanwhile_are_missed(
    site_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crossval, "_run_folds", lambda *_: None)
    with pytest.raises(InputError, match=r"folds are gone.*Repeat the command"):
        cross_validate(config(site_store, group_by="site"), site_store, tmp_path / "out")
