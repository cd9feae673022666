from collections.abc import Callable

import optuna
import pytest
from optuna.trial import TrialState

from leakdet.config import SearchParam, TrainConfig, TuneConfig
from leakdet.tuning.trials import trial_folder

Settings = Callable[..., TuneConfig]
Tuned = Callable[..., optuna.Study]


def states(study: optuna.Study) -> list[TrialState]:
    return [trial.state for trial in study.trials]


def test_every_check_is_reported_once_and_the_sanity_check_never(
    settings: Settings, tuned: Tuned
) -> None:
    study = tuned(settings(n_trials=2, pruner="none"))
    for trial in study.trials:
        assert sorted(trial.intermediate_values) == [0, 1, 2, 3, 4]
        assert trial.value == max(trial.intermediate_values.values())


def test_the_best_check_counts_not_the_last(settings: Settings, tuned: Tuned) -> None:
    study = tuned(settings(n_trials=1), lambda config: [0.2, 0.9, 0.4])
    assert study.trials[0].value == 0.9


def test_repeats_use_other_seeds_and_give_their_mean(settings: Settings, tuned: Tuned) -> None:
    study = tuned(settings(n_trials=1, repeats=3), lambda config: [0.1 * (config.seed + 1)])
    assert study.trials[0].value == pytest.approx(0.2)
    assert study.trials[0].user_attrs["trainings"] == pytest.approx([0.1, 0.2, 0.3])


def test_folds_are_trained_in_each_repeat_and_give_their_mean(
    settings: Settings, tuned: Tuned
) -> None:
    config = settings(n_trials=1, repeats=2, folds=3)
    study = tuned(config, lambda config: [0.1 * (config.seed + 1)])
    assert study.trials[0].user_attrs["trainings"] == pytest.approx(
        [0.1, 0.11, 0.12, 0.2, 0.21, 0.22]
    )
    assert study.trials[0].value == pytest.approx(0.16)
    logs = sorted(trial_folder(config.tune.folder, 0).rglob("log.txt"))
    assert [path.parent.name for path in logs] == ["fold-0", "fold-1", "fold-2"] * 2


def test_equal_parameters_are_trained_once(settings: Settings, tuned: Tuned) -> None:
    space = {"batch": SearchParam(setting="data.batch_size", kind="categorical", choices=[8, 16])}
    trained = []

    def curve(training: TrainConfig) -> list[float]:
        trained.append(training.data.batch_size)
        return [training.data.batch_size / 100]

    study = tuned(settings(n_trials=6, search=space, sampler="random"), curve)
    assert sorted(trained) == [8, 16]
    assert [t.value for t in study.trials] == [t.params["batch"] / 100 for t in study.trials]


def test_one_nan_does_not_prune(settings: Settings, tuned: Tuned) -> None:
    study = tuned(
        settings(n_trials=8, n_warmup=0, n_min_trials=1), lambda config: [float("nan"), 0.5, 0.6]
    )
    assert states(study) == [TrialState.COMPLETE] * 8
    assert study.best_value == 0.6


def test_infinity_is_no_result(settings: Settings, tuned: Tuned) -> None:
    study = tuned(settings(n_trials=1), lambda config: [float("inf")])
    assert states(study) == [TrialState.FAIL]
