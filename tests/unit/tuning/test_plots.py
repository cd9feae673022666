"""Optuna's plots as HTML that fits its place."""

import sys
from collections.abc import Callable
from typing import Any

import optuna
import pytest

from leakdet.config import TuneConfig
from leakdet.tuning.plots import drawn_plots, has_plotly

Settings = Callable[..., TuneConfig]
Tuned = Callable[..., optuna.Study]


@pytest.fixture
def study(settings: Settings, tuned: Tuned) -> optuna.Study:
    pytest.importorskip("plotly", reason="plotly draws the plots")
    return tuned(settings(n_trials=12, n_warmup=1, n_min_trials=2))


def test_every_plot_is_drawn_as_wide_as_its_place_and_the_script_comes_once(
    study: optuna.Study,
) -> None:
    assert has_plotly()
    plots = drawn_plots(study, "recording_f1")
    together = "".join(plots.values())
    assert "Not drawn" not in together
    assert together.count("plotly.js v") == 1
    assert "plotly.js v" in next(iter(plots.values()))
    assert {content.count("plotly-graph-div") for content in plots.values()} == {1, 2}
    assert together.count('"responsive": true') == together.count("plotly-graph-div")


def test_slices_are_one_small_plot_for_each_setting(study: optuna.Study) -> None:
    content = drawn_plots(study, "recording_f1")["Each setting alone, a slice of the search"]
    assert content.startswith('<div class="plot small">')
    assert content.count("plotly-graph-div") == 2


def test_a_plot_that_fails_costs_no_other_and_the_next_carries_the_script(
    study: optuna.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise TypeError("another <version>")

    monkeypatch.setattr("optuna.visualization.plot_optimization_history", fail)
    failed, *others = drawn_plots(study, "recording_f1").values()
    assert "complete trials: TypeError: another &lt;version&gt;</p>" in failed
    assert all("plotly-graph-div" in plot for plot in others)
    assert ["plotly.js v" in plot for plot in others] == [True, False, False, False, False]


def test_a_missing_plotly_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert not has_plotly()
