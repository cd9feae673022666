import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

from leakdet.config import TuneConfig
from leakdet.tuning.html_page import write_page

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


def test_the_page_holds_facts_trials_and_plots_and_needs_no_network(
    settings: Settings, tuned: Tuned, tmp_path: Path
) -> None:
    pytest.importorskip("plotly", reason="plotly draws the plots")
    study = tuned(settings(n_trials=12, n_warmup=1, n_min_trials=2))
    content = page(study, tmp_path, verdict="F1 < 1 & more")
    assert content.count("<section>") == 7
    assert content.count("plotly-graph-div") == 6
    assert "Not drawn" not in content
    assert "<script src" not in content
    assert "<td>F1 &lt; 1 &amp; more</td>" in content
    assert f"trial {study.best_trial.number}, 0.3333: lr 0.01235" in content
    assert content.count("<td>complete</td>") + content.count("<td>pruned</td>") == 12


def test_without_plotly_the_page_has_no_plots_and_says_how_to_get_them(
    settings: Settings, tuned: Tuned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    content = page(tuned(settings(n_trials=3)), tmp_path)
    assert "plotly is not installed. pip install plotly" in content
    assert content.count("<section>") == 2
    assert content.count("<td>complete</td>") == 3


def test_a_plot_that_fails_costs_nothing_else(
    settings: Settings, tuned: Tuned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("plotly", reason="plotly draws the plots")

    def fail(*_: Any, **__: Any) -> None:
        raise TypeError("another <version>")

    monkeypatch.setattr("optuna.visualization.plot_optimization_history", fail)
    content = page(tuned(settings(n_trials=12, n_warmup=1, n_min_trials=2)), tmp_path)
    assert "TypeError: another &lt;version&gt;" in content
    assert content.count("plotly-graph-div") == 5
    assert content.count("plotly.js v") == 1  # the script, by the first plot that was drawn
