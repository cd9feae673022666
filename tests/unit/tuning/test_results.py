import csv
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from tests.browsers import chromium

from leakdet.config import TrainConfig, TuneConfig
from leakdet.core.errors import LeakdetError
from leakdet.core.messages import LOG
from leakdet.tuning import results
from leakdet.tuning.results import (
    balance_sentence,
    compare_models,
    counts,
    final_models,
    finish,
    same_f1,
    tied_with_best,
    tuning_sentence,
    winner,
    write_page,
    write_trials,
)
from leakdet.tuning.study import AUROC, CHECKS, CONFUSION, LEAK_SHARE, open_study

Settings = Callable[..., TuneConfig]
Tuned = Callable[..., optuna.Study]


def result(study: optuna.Study, **more: Any) -> dict[str, Any]:
    best = study.best_trial
    return {
        "objective": "recording_f1",
        "trials": {"complete": 7, "best_trial": best.number},
        "best": {"trial": best.number, "value": 1 / 3, "params": {"lr": 0.0123456789}},
        **more,
    }


def page(study: optuna.Study, folder: Path, **more: Any) -> str:
    write_page(study, folder / "tune.html", result(study, **more))
    return (folder / "tune.html").read_text(encoding="utf-8")


def rows(content: str) -> list[list[str]]:
    """The cells of the table of trials, without its head."""
    body = content.partition("<tbody>")[2].partition("</tbody>")[0]
    cells = re.compile(r"<t[hd][^>]*>(.*?)</t[hd]>")
    return [cells.findall(row) for row in body.split("<tr")[1:]]


def states(content: str) -> set[str]:
    return {cells[1] for cells in rows(content)}


@pytest.mark.usefixtures("figures")
def test_the_page_holds_facts_trials_and_plots_and_needs_no_network(
    settings: Settings, tuned: Tuned, tmp_path: Path
) -> None:
    study = tuned(settings(n_trials=12, n_warmup=1, n_min_trials=2))
    content = page(study, tmp_path, verdict="F1 < 1 & more")
    headings = re.findall(r"<figcaption><b>(.*?)</b>", content)
    assert {*headings} == {
        "Every trial", "Validation checks", "What mattered", "lr", "dropout",
    }  # fmt: skip
    assert content.count("<svg") == len(headings)
    assert "<script" not in content
    assert "report.html" not in content  # no model was trained
    assert "<td>F1 &lt; 1 &amp; more</td>" in content
    assert f"trial {study.best_trial.number}: recording_f1 0.3333 on val" in content
    assert "<td>lr 0.01235</td>" in content
    assert states(content) == {"complete", "pruned"}
    assert len(rows(content)) == 12


def test_the_table_begins_with_the_best_trial_and_ends_with_those_that_failed(
    settings: Settings, tuned: Tuned, tmp_path: Path
) -> None:
    def curve(config: TrainConfig) -> list[float]:
        if config.optimizer.lr < 1e-3:
            raise ValueError("out of <range>")
        return [min(0.9, config.optimizer.lr * 100)]

    study = tuned(settings(n_trials=8, n_min_trials=99), curve)
    best, *others = rows(page(study, tmp_path))
    assert best[0] == f"{study.best_trial.number} (best)"
    values = [float(cells[2]) for cells in (best, *others) if cells[1] == "complete"]
    assert values == sorted(values, reverse=True)
    failed = [cells[1] for cells in others if cells[1] != "complete"]
    assert failed
    assert failed == [cells[1] for cells in others[-len(failed) :]]
    assert "ValueError: out of &lt;range&gt;" in failed[0]


def test_a_study_of_equal_trials_has_a_page(
    settings: Settings, tuned: Tuned, tmp_path: Path
) -> None:
    content = page(tuned(settings(n_trials=1), lambda config: [0.5]), tmp_path, model="best")
    assert "What mattered" not in content
    assert "Every trial" in content
    assert 'href="best/report.html"' in content
    assert [cells[1] for cells in rows(content)] == ["complete"]


@pytest.mark.usefixtures("figures")
@pytest.mark.parametrize("width", [390, 1280])
def test_a_laptop_and_a_phone_show_the_page_without_scrolling_sideways(
    settings: Settings, tuned: Tuned, tmp_path: Path, width: int
) -> None:
    browser = chromium()
    content = page(tuned(settings(n_trials=12, n_warmup=1, n_min_trials=2)), tmp_path)
    measured = (
        "<script>addEventListener('load', () => { const page = document.documentElement;"
        "const plots = [...document.querySelectorAll('figure')];"
        "const out = (figure) => Math.max(0, figure.scrollWidth - figure.clientWidth);"
        "parent.postMessage([page.clientWidth, page.scrollWidth, Math.max(...plots.map(out))],"
        "'*'); });</script></html>"
    )
    (tmp_path / "page.html").write_text(content.replace("</html>", measured), encoding="utf-8")
    # windows are 500 px wide at least, frames are not
    (tmp_path / "frame.html").write_text(
        "<script>onmessage = (event) => { document.title = event.data; };</script>"
        f"<iframe src=page.html style='border:0;width:{width}px;height:9000px'></iframe>"
    )
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=60000"]
    command += ["--window-size=1400,9000", (tmp_path / "frame.html").as_uri()]
    seen = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    title = re.search(r"<title>(.*)</title>", seen.stdout)
    assert title, seen.stdout
    assert [int(number) for number in title.group(1).split(",")] == [width, width, 0]


def comparison(split: str = "test", units: int = 40, **f1: Any) -> dict[str, Any]:
    table = {"a": 0.772, "b": 0.784, "difference": 0.012, "interval": [-0.1, 0.2], "note": None}
    unit = "recording" if units == 40 else "site"
    return {"val": {}} | {split: {"recordings": 40, "unit": unit, "units": units, "f1": table | f1}}


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            comparison(interval=[0.01, 0.2]),
            r"^Tuning helped: F1 0\.772 .*0\.784 .*40 test recordings .*\+0\.010 to \+0\.200\)\.$",
        ),
        (
            comparison(),
            r"^Tuning .*no measurable .*F1 0\.772 .*0\.784 .*40 test .*-0\.100 to \+0\.200\)\.$",
        ),
        (
            comparison(interval=[-0.3, -0.1]),
            r"^Tuning .*worse; keep the untuned .*F1 0\.772 .*0\.784 .*40 test .*-0\.300 to -0\.100\)\.$",
        ),
        (
            comparison(units=8, a=0.67, b=0.67, interval=[0.0, 0.0]),
            r"^Tuning .*no measurable .*\(F1 0\.67 .*40 test .*8 groups \(site\) .*too few",
        ),
        (
            comparison(interval=None),
            r"^Tuning .*no measurable .*\(F1 0\.772 .*0\.784 .*40 test recordings are too few",
        ),
        (
            comparison(difference=None, a=None, note="f1 is undefined for a"),
            r"unknown: f1 is undefined for a .*40 test",
        ),
    ],
)
def test_the_verdict_says_no_more_than_the_interval(found: dict[str, Any], sentence: str) -> None:
    assert re.search(sentence, tuning_sentence(found))


def test_few_recordings_are_told_as_such() -> None:
    table = {"a": 2 / 3, "b": 2 / 3, "difference": 0.0, "interval": [0.0, 0.0], "note": None}
    found = {"test": {"recordings": 8, "unit": "recording", "units": 8, "f1": table}}
    assert re.search(r"no measurable .*\(F1 0\.67 .*8 test .*too few", tuning_sentence(found))


def test_without_test_the_verdict_tells_that_val_flatters() -> None:
    sentence = tuning_sentence(comparison(split="val", interval=[0.01, 0.2]))
    assert sentence.startswith("Tuning helped: ")
    assert "flatters the winner" in sentence


def test_an_f1_is_recognised_in_single_and_double_precision() -> None:
    """F1 of 18 leaks found with 11 false alarms, logged in training and evaluated; and of 10."""
    assert same_f1(36 / 47, 0.7659574747085571)
    assert not same_f1(36 / 46, 0.7659574747085571)
    assert not same_f1(None, 0.5)
    assert not same_f1(None, None)


def test_a_model_compared_with_itself_differs_in_nothing(trained: Any) -> None:
    tables = compare_models(trained.model, trained.model)
    metrics = json.loads((trained.folder / "metrics.json").read_text(encoding="utf-8"))
    for split in ("val", "test"):
        table = tables[split]
        assert table["f1"]["a"] == table["f1"]["b"] == metrics[split]["recording"]["f1"]
        assert table["auroc"]["difference"] == 0.0
        assert (table["unit"], table["recordings"]) == ("site", metrics[split]["recording"]["n"])
        assert 1 < table["units"] < table["recordings"]  # whole sites are resampled
        assert table["mcnemar"] == {"only_a": 0, "only_b": 0, "p_value": 1.0}


def test_both_configurations_are_trained_in_new_folders_and_compared(
    settings: Settings, trained: Any, tmp_path: Path
) -> None:
    """By a training that copies a finished run, and logs the F1 of its metrics."""
    metrics = json.loads((trained.folder / "metrics.json").read_text(encoding="utf-8"))
    f1 = metrics["val"]["recording"]["f1"]
    runs: dict[str, TrainConfig] = {}

    def train(folder: Path, config: TrainConfig) -> dict[str, Any]:
        assert list(folder.iterdir()) == []
        runs[folder.name] = config
        shutil.copy(trained.model, folder)
        return metrics

    config = settings()
    tuned = TrainConfig(patience=3, threads=2)
    left_over = Path(config.tune.folder) / "best" / "of an interrupted run"
    left_over.mkdir(parents=True)
    for value, reproduced in ((f1, True), (f1 / 2, False)):
        result = final_models(config, tuned, value, train)
        assert result["reproduced"] is reproduced
    assert runs["best"] == tuned
    assert runs["untuned"] == TrainConfig(threads=2)
    assert "no measurable difference" in result["verdict"]
    assert Path(result["model"]).is_file()
    assert "reproduced" not in final_models(settings(repeats=2), tuned, f1, train)


def no_training(folder: Path, config: TrainConfig) -> dict[str, Any]:
    raise AssertionError("nothing is to be trained")


def note_only(config: TrainConfig, note: str) -> str:
    return f"# {note}\n"


def test_ties_go_to_the_higher_auroc(settings: Settings) -> None:
    study = open_study(settings())
    for auroc in (0.6, 0.9, 0.8):
        trial = study.ask()
        trial.set_user_attr(AUROC, auroc)
        study.tell(trial, 0.75)
    assert winner(study, maximises=True).number == 1
    assert tied_with_best(study, maximises=True) == 3


def test_every_trial_is_a_row_of_the_table_and_counted_by_state(
    settings: Settings, tuned: Tuned, tmp_path: Path
) -> None:
    study = tuned(settings(n_trials=12, n_warmup=1, n_min_trials=2))
    write_trials(study, tmp_path / "trials.csv")
    with (tmp_path / "trials.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["number"]) for row in rows] == list(range(12))
    assert [row["state"] for row in rows] == [trial.state.name for trial in study.trials]
    assert rows[0].keys() >= {"tp", "fp", "fn", "leak_share"}
    for row, trial in zip(rows, study.trials, strict=True):
        assert float(row["lr"]) == trial.params["lr"]
        assert row["value"] == ("" if trial.value is None else str(trial.value))
    found = counts(study)
    assert found["complete"] + found["pruned"] == 12
    assert found["checks"] == sum(int(row[CHECKS]) for row in rows)


def test_the_counts_of_a_trial_stand_in_its_row(settings: Settings, tmp_path: Path) -> None:
    study = open_study(settings())
    for confusion in ({"tn": 5, "fp": 1, "fn": 2, "tp": 4}, None):
        trial = study.ask()
        trial.set_user_attr(CONFUSION, confusion)
        study.tell(trial, 0.75)
    write_trials(study, tmp_path / "trials.csv")
    with (tmp_path / "trials.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [[row[name] for name in ("tp", "fp", "fn")] for row in rows] == [
        ["4", "1", "2"],
        ["", "", ""],
    ]


def test_what_the_winner_weighs_is_told_with_all_that_multiplies(settings: Settings) -> None:
    study = open_study(settings())
    trial = study.ask()
    study.tell(trial, 0.75)
    tuned = settings().training()
    tuned.data.sampling = "balanced"
    tuned.loss.name, tuned.loss.leak_weight_boost = "weighted_ce", 2.5
    best = winner(study, maximises=True)
    assert balance_sentence(best, tuned) == ""
    best.set_user_attr(LEAK_SHARE, 0.714)
    balance = r"^balance  .* 71% \(data\.sampling=balanced times loss\.leak_weight_boost=2\.5\)$"
    assert re.search(balance, balance_sentence(best, tuned))


def test_a_failing_page_costs_neither_result_nor_models(
    settings: Settings, tuned: Tuned, trained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is written first, and the same command does not train again."""
    metrics = json.loads((trained.folder / "metrics.json").read_text(encoding="utf-8"))
    trainings = []

    def train(folder: Path, config: TrainConfig) -> dict[str, Any]:
        trainings.append(folder.name)
        shutil.copy(trained.model, folder)
        return metrics

    def fail(*_: Any) -> None:
        raise LeakdetError("no page")

    config = settings(n_trials=2)
    folder = Path(config.tune.folder)
    study = tuned(config)
    with monkeypatch.context() as broken:
        broken.setattr(results, "write_page", fail)
        with pytest.raises(LeakdetError):
            finish(config, study, train, note_only)
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert "verdict" in result
    assert (folder / "best" / "model.safetensors").is_file()
    assert finish(config, study, train, note_only) == 0
    assert trainings == ["untuned", "best"]
    assert (folder / "tune.html").is_file()


def test_the_result_is_written_once_and_again_after_more_trials(
    settings: Settings, tuned: Tuned
) -> None:
    config = settings(n_trials=2, finish=False)
    path = Path(config.tune.folder) / "result.json"
    for trials in (2, 2, 3):
        config = settings(n_trials=trials, finish=False)
        study = tuned(config)
        assert finish(config, study, no_training, note_only) == 0
        result = json.loads(path.read_text(encoding="utf-8"))
        assert result["trials"]["complete"] == trials
        assert result["best"]["value"] == study.best_value
        note = (path.parent / "best.yaml").read_text(encoding="utf-8")
        assert note.startswith(f"# study default, trial {study.best_trial.number} of {trials}")


def test_a_damaged_result_is_written_anew(
    settings: Settings,
    tuned: Tuned,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Hydra disables the logger, and raises the root's level for the tests that follow
    monkeypatch.setattr(LOG, "disabled", False)
    caplog.set_level("WARNING", LOG.name)
    config = settings(n_trials=2, finish=False)
    study = tuned(config)
    path = Path(config.tune.folder) / "result.json"
    path.write_text("{", encoding="utf-8")
    assert finish(config, study, no_training, note_only) == 0
    assert json.loads(path.read_text(encoding="utf-8"))["trials"]["complete"] == 2
    assert "not the result" in caplog.text


def test_trials_of_other_hosts_are_waited_for(settings: Settings, tuned: Tuned) -> None:
    config = settings(n_trials=2, finish=False)
    study = tuned(config)
    study.ask()
    assert finish(config, study, no_training, note_only) == 1
    assert not (Path(config.tune.folder) / "result.json").exists()


def test_without_a_complete_trial_the_reasons_are_told(settings: Settings, tuned: Tuned) -> None:
    config = settings(n_trials=3)
    study = tuned(config, lambda config: [float("nan")] * 3)
    with pytest.raises(LeakdetError, match=r"0 of 3 trials .*finite number"):
        finish(config, study, no_training, note_only)
