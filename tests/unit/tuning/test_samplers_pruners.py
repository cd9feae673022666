import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from leakdet.config import SearchParam, TrainConfig, TuneConfig
from leakdet.errors import SettingsError
from leakdet.tuning.trials import CHECKS

Settings = Callable[..., TuneConfig]
Tuned = Callable[..., optuna.Study]


def states(study: optuna.Study) -> list[TrialState]:
    return [trial.state for trial in study.trials]


@pytest.mark.parametrize("pruner", ["asha", "median", "percentile", "hyperband"])
def test_pruners_prune_but_not_early_nor_with_few_trials(
    settings: Settings, tuned: Tuned, pruner: str
) -> None:
    config = settings(n_trials=20, pruner=pruner, n_warmup=2, n_min_trials=4, n_startup_trials=20)
    config.trainer["max_epochs"] = 5
    study = tuned(config)
    pruned = [t for t in study.trials if t.state == TrialState.PRUNED]
    assert pruned
    assert all(t.last_step is not None and t.last_step >= 2 for t in pruned)
    assert all(t.number >= 4 for t in pruned)
    assert max(t.value for t in study.trials if t.value is not None) > max(
        max(t.intermediate_values.values()) for t in pruned
    )


def test_the_default_prunes_most_trials_of_a_long_study_and_keeps_the_best(
    settings: Settings, tuned: Tuned
) -> None:
    """Curves of thirty noisy checks whose height at the end is told by the sixth already."""

    def curve(config: TrainConfig) -> list[float]:
        noise = np.random.default_rng(int(config.optimizer.lr * 1e9)).uniform(-0.05, 0.0, 30)
        top = 0.9 - abs(math.log10(config.optimizer.lr) + 2) / 10
        return [top + float(down) for down in noise]

    common = {"n_trials": 20, "sampler": "random"}
    whole = tuned(
        settings(**common, pruner="none", folder=settings().tune.folder + "-whole"), curve
    )
    study = tuned(settings(**common), curve)
    assert len(states(study)) == 20
    assert states(study).count(TrialState.PRUNED) >= 7
    checks = sum(t.user_attrs[CHECKS] for t in study.trials)
    assert checks <= 0.6 * sum(t.user_attrs[CHECKS] for t in whole.trials)
    assert study.best_value == whole.best_value


def test_wilcoxon_compares_trainings_and_stops_between_them(
    settings: Settings, tuned: Tuned
) -> None:
    def settled(config: TrainConfig) -> list[float]:
        return [1.0 - abs(math.log10(config.optimizer.lr) + 2) / 4 + config.seed / 1000]

    study = tuned(
        settings(n_trials=12, pruner="wilcoxon", repeats=2, folds=3, sampler="random"), settled
    )
    pruned = [t for t in study.trials if t.state == TrialState.PRUNED]
    assert pruned
    assert {len(t.intermediate_values) for t in pruned} <= {4, 5}
    assert all(
        len(t.intermediate_values) == 6 for t in study.trials if t.state == TrialState.COMPLETE
    )


@pytest.mark.parametrize("trainings", [{}, {"repeats": 4}, {"repeats": 2, "folds": 2}])
def test_wilcoxon_is_refused_where_it_could_never_save_a_training(
    settings: Settings, trainings: dict[str, int]
) -> None:
    with pytest.raises(SettingsError, match=r"tune\.repeats x tune\.folds of at least 5"):
        settings(pruner="wilcoxon", **trainings)


@pytest.mark.parametrize("sampler", ["gp", "cmaes"])
def test_other_samplers_learn_and_are_seeded(
    settings: Settings, tuned: Tuned, tmp_path: Path, sampler: str
) -> None:
    if sampler == "cmaes":
        pytest.importorskip("cmaes", reason="cmaes is not installed: pip install cmaes")
    studies = [
        tuned(
            settings(
                n_trials=6,
                n_startup_trials=4,
                sampler=sampler,
                pruner="none",
                folder=str(tmp_path / name),
            )
        )
        for name in ("a", "b")
    ]
    parameters = [[t.params for t in study.trials] for study in studies]
    assert parameters[0] == parameters[1]
    assert len({t.params["lr"] for t in studies[0].trials}) == 6


def test_grid_ends_when_it_is_exhausted(settings: Settings, tuned: Tuned) -> None:
    space = {
        "batch": SearchParam(setting="data.batch_size", kind="int", low=8.0, high=24.0, step=8.0)
    }
    study = tuned(settings(n_trials=20, search=space, sampler="grid"), lambda config: [0.5])
    assert sorted(t.params["batch"] for t in study.trials) == [8, 16, 24]


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_samplers_are_seeded(
    settings: Settings, tuned: Tuned, tmp_path: Path, sampler: str
) -> None:
    runs = [
        tuned(
            settings(
                n_trials=6,
                n_startup_trials=3,
                sampler=sampler,
                pruner="none",
                folder=str(tmp_path / name),
                seed=seed,
            )
        )
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    parameters = [[t.params for t in study.trials] for study in runs]
    assert parameters[0] == parameters[1] != parameters[2]


def test_tpe_learns_on_a_known_curve(settings: Settings, tuned: Tuned) -> None:
    study = tuned(settings(n_trials=40, pruner="none"))
    late = sorted(abs(t.value - 1.0) for t in study.trials[20:])
    early = sorted(abs(t.value - 1.0) for t in study.trials[:8])
    assert late[len(late) // 2] < early[len(early) // 2]


def test_a_study_that_was_stopped_draws_what_it_would_have_drawn(
    settings: Settings, tuned: Tuned, tmp_path: Path
) -> None:
    whole = tuned(settings(n_trials=12, n_startup_trials=4, folder=str(tmp_path / "whole")))
    for upto in (5, 6, 12):
        pieces = tuned(settings(n_trials=upto, n_startup_trials=4, folder=str(tmp_path / "pieces")))
    assert [t.params for t in pieces.trials] == [t.params for t in whole.trials]
    assert len({str(t.params) for t in whole.trials}) == 12
