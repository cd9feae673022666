from collections.abc import Callable
from pathlib import Path

import optuna
import pytest

from leakdet.config import TuneConfig
from leakdet.tuning.html_page import write_page
from leakdet.tuning.study import open_study
from leakdet.tuning.study_result import same_f1, verdict, winner, write_trials
from leakdet.tuning.trials import AUROC

Settings = Callable[..., TuneConfig]
Tuned = Callable[..., optuna.Study]


def test_ties_go_to_the_higher_auroc(settings: Settings) -> None:
    study = open_study(settings())
    for auroc in (0.6, 0.9, 0.8):
        trial = study.ask()
        trial.set_user_attr(AUROC, auroc)
        study.tell(trial, 0.75)
    assert winner(study, maximises=True).number == 1


def test_the_page_needs_no_network_and_the_table_lists_all(
    settings: Settings, tuned: Tuned, tmp_path: Path
) -> None:
    pytest.importorskip("plotly", reason="plotly draws the page")
    study = tuned(settings(n_trials=12, n_warmup=1, n_min_trials=2))
    write_page(study, tmp_path / "tune.html", "recording_f1", {"Best <1>": "a & b"})
    page = (tmp_path / "tune.html").read_text(encoding="utf-8")
    assert page.count("<section>") == page.count("plotly-graph-div") == 6
    assert "Not drawn" not in page
    assert "<script src" not in page
    assert "Best &lt;1&gt;" in page
    write_trials(study, tmp_path / "trials.csv")
    assert len((tmp_path / "trials.csv").read_text(encoding="utf-8").splitlines()) == 13


@pytest.mark.parametrize(
    ("interval", "note", "said"),
    [
        ([0.01, 0.2], None, "helped beyond the noise"),
        ([-0.1, 0.2], None, "No gain beyond the noise"),
        ([-0.3, -0.1], None, "WORSE"),
        ([0.01, 0.2], "the intervals rest on 2 groups only and are too narrow", "cannot be told"),
        (None, "no interval can be drawn from 1 groups", "cannot be told"),
    ],
)
def test_the_verdict_says_no_more_than_the_interval(
    interval: list[float] | None, note: str | None, said: str
) -> None:
    f1 = {"a": 0.8, "b": 0.9, "difference": 0.1, "interval": interval, "note": note}
    assert said in verdict({"val": {}, "test": {"recordings": 40, "f1": f1}})
    assert (
        "flatters" in verdict({"val": {"recordings": 40, "f1": {**f1, "note": None}}})
        or interval is None
    )


def test_an_f1_is_recognised_in_single_and_double_precision() -> None:
    """F1 of 18 leaks found with 11 false alarms, as training logs it and as evaluation gives it; and its neighbour, of 10."""
    assert same_f1(36 / 47, 0.7659574747085571)
    assert not same_f1(36 / 46, 0.7659574747085571)
    assert not same_f1(None, 0.5)
    assert not same_f1(None, None)
