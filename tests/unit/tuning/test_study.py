import sys
from collections.abc import Callable

import optuna
import pytest

from leakdet.config import SearchParam, TuneConfig
from leakdet.errors import SettingsError
from leakdet.tuning import study as study_module
from leakdet.tuning.storages import open_storage
from leakdet.tuning.study import STUDY_FINGERPRINT, check_unchanged, introduction, open_study

Settings = Callable[..., TuneConfig]
Tuned = Callable[..., optuna.Study]
LR = SearchParam(setting="optimizer.lr", low=1e-4, high=1e-1, log=True)
WIDER = SearchParam(setting="optimizer.lr", low=1e-4, high=1.0, log=True)
DROPOUT = SearchParam(setting="network.dropout", low=0.0, high=0.5, step=0.25)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objective": "loss"}, "direction"),
        ({"repeats": 2}, "repeats"),
        ({"folds": 2}, "folds"),
        ({"search": {"lr": WIDER, "dropout": DROPOUT}}, r"space\.lr\.high: 0.1 / 1"),
        ({"search": {"lr": LR}}, r"space\.dropout"),
    ],
)
def test_another_search_under_the_same_name_is_refused(
    settings: Settings, tuned: Tuned, change: dict, message: str
) -> None:
    tuned(settings(n_trials=1))
    with pytest.raises(SettingsError, match=message) as caught:
        open_study(settings(**change))
    assert "tune.study=" in str(caught.value)


def test_other_training_settings_are_refused_too(settings: Settings, tuned: Tuned) -> None:
    tuned(settings(n_trials=1))
    config = settings(n_trials=2)
    config.patience = 3
    with pytest.raises(SettingsError, match=r"training\.patience: 15 / 3"):
        open_study(config)


def test_the_same_search_goes_on_with_other_loggers_threads_and_totals(
    settings: Settings, tuned: Tuned
) -> None:
    study = tuned(settings(n_trials=1))
    config = settings(n_trials=9, workers=2, pruner="none", sampler="random")
    config.threads, config.logger = 3, {"csv": {}}
    check_unchanged(study, config)


def test_a_study_of_another_program_is_refused(settings: Settings) -> None:
    config = settings()
    open_study(config)._storage.delete_study(open_study(config)._study_id)
    other = optuna.create_study(
        study_name=config.tune.study, storage=open_storage(config.tune), direction="minimize"
    )
    with pytest.raises(SettingsError, match='direction: "minimize" / "maximize"'):
        open_study(config)
    assert STUDY_FINGERPRINT not in other.user_attrs


def test_a_grid_is_queued_once_in_an_order_of_its_own(settings: Settings) -> None:
    space = {
        "batch": SearchParam(setting="data.batch_size", kind="int", low=8.0, high=72.0, step=8.0)
    }
    orders = []
    for seed in (0, 1):
        config = settings(search=space, sampler="grid", seed=seed, study=f"grid-{seed}")
        for _ in range(2):
            study = open_study(config)
        orders.append([trial.system_attrs["fixed_params"]["batch"] for trial in study.trials])
    assert [sorted(order) for order in orders] == [list(range(8, 73, 8))] * 2
    assert orders[0] != orders[1]


def test_the_introduction_says_what_is_searched_and_that_plots_will_be_missing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = settings(n_trials=5, workers=2)
    study = open_study(config)
    monkeypatch.setattr(study_module, "has_plotly", lambda: True)
    text = introduction(config, study)
    assert "study    default: 0 of 5 trials are finished" in text
    assert "search   lr, dropout" in text
    assert "2 workers" in text
    assert "plotly" not in text
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert "tune.html will have no plots (pip install plotly)" in introduction(config, study)
