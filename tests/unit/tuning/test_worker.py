"""Studies of trainings that follow a script, so that twenty trials take a second."""

import math
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import optuna
import pytest
import torch
from optuna.trial import TrialState

from leakdet.config import SearchParam, TrainConfig, TuneConfig, TuneSettings
from leakdet.errors import LeakdetError, SettingsError
from leakdet.training import names
from leakdet.tuning.checks import CheckReporter
from leakdet.tuning.page import write_page
from leakdet.tuning.result import counts, same_f1, verdict, winner, write_trials
from leakdet.tuning.study import open_study
from leakdet.tuning.trials import AUROC, OWNER, REASON, finished, requeue_dead, this_process, trial_folder
from leakdet.tuning.worker import Stopped, Worker, sigterm_raises

SPACE = {
    "lr": SearchParam(setting="optimizer.lr", low=1e-4, high=1e-1, log=True),
    "dropout": SearchParam(setting="network.dropout", low=0.0, high=0.5, step=0.25),
}


def check(reporter: CheckReporter, f1: float, auroc: float = 0.5, sanity: bool = False) -> None:
    """One validation check as Lightning would announce it."""
    trainer = Mock(
        spec=pl.Trainer, sanity_checking=sanity, callback_metrics={names.VAL_F1: f1, names.VAL_AUROC: auroc}
    )
    reporter.on_validation_end(trainer, Mock(spec=pl.LightningModule))


def scripted(
    curve: Callable[[TrainConfig], Sequence[float]],
) -> Callable[[Path, TrainConfig, Sequence[Any]], None]:
    def train(folder: Path, config: TrainConfig, extra: Sequence[Any]) -> None:
        (folder / names.CHECKPOINTS).mkdir(exist_ok=True)
        check(extra[0], 0.123, sanity=True)
        for value in curve(config):
            check(extra[0], value)

    return train


def by_lr(config: TrainConfig) -> list[float]:
    """Best at 1e-2; five checks that rise to it."""
    top = 1.0 - abs(math.log10(config.optimizer.lr) + 2) / 4
    return [top * (step + 1) / 5 for step in range(5)]


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., TuneConfig]:
    def make(**tune: Any) -> TuneConfig:
        search = tune.pop("search", SPACE)
        return TuneConfig(tune=TuneSettings(**{"folder": str(tmp_path / "study"), **tune}), search=search)

    return make


@pytest.fixture
def tuned() -> Callable[..., optuna.Study]:
    def run(config: TuneConfig, curve: Callable[[TrainConfig], Sequence[float]] = by_lr) -> optuna.Study:
        study = open_study(config)
        Worker(config, study, scripted(curve), lambda config, note: f"# {note}\n").work()
        return study

    return run


Settings = Callable[..., TuneConfig]
Tuned = Callable[..., optuna.Study]


def states(study: optuna.Study) -> list[TrialState]:
    return [trial.state for trial in study.trials]


def test_n_trials_is_the_total_over_runs(settings: Settings, tuned: Tuned) -> None:
    assert len(tuned(settings(n_trials=3)).trials) == 3
    assert len(tuned(settings(n_trials=5)).trials) == 5
    assert len(tuned(settings(n_trials=5)).trials) == 5


def test_a_study_that_was_stopped_draws_what_it_would_have_drawn(
    settings: Settings, tuned: Tuned, tmp_path: Path
) -> None:
    whole = tuned(settings(n_trials=12, n_startup_trials=4, folder=str(tmp_path / "whole")))
    for upto in (5, 6, 12):
        pieces = tuned(settings(n_trials=upto, n_startup_trials=4, folder=str(tmp_path / "pieces")))
    assert [t.params for t in pieces.trials] == [t.params for t in whole.trials]
    assert len({str(t.params) for t in whole.trials}) == 12


def test_every_check_is_reported_once_and_the_sanity_check_never(settings: Settings, tuned: Tuned) -> None:
    study = tuned(settings(n_trials=2, pruner="none"))
    for trial in study.trials:
        assert sorted(trial.intermediate_values) == [0, 1, 2, 3, 4]
        assert trial.value == max(trial.intermediate_values.values())


def test_the_best_check_counts_not_the_last(settings: Settings, tuned: Tuned) -> None:
    study = tuned(settings(n_trials=1), lambda config: [0.2, 0.9, 0.4])
    assert study.trials[0].value == 0.9


def test_nothing_is_pruned_early_or_with_few_trials(settings: Settings, tuned: Tuned) -> None:
    study = tuned(settings(n_trials=20, n_warmup=2, n_min_trials=4, n_startup_trials=20))
    pruned = [t for t in study.trials if t.state == TrialState.PRUNED]
    assert pruned
    assert all(t.last_step is not None and t.last_step >= 2 for t in pruned)
    assert all(t.number >= 4 for t in pruned)


@pytest.mark.parametrize("pruner", ["asha", "hyperband", "percentile"])
def test_other_pruners_wait_too(settings: Settings, tuned: Tuned, pruner: str) -> None:
    study = tuned(settings(n_trials=16, pruner=pruner, n_warmup=2, n_min_trials=4))
    assert all(t.number >= 4 and t.last_step >= 2 for t in study.trials if t.state == TrialState.PRUNED)
    assert TrialState.COMPLETE in states(study)


def test_wilcoxon_compares_repeats(settings: Settings, tuned: Tuned) -> None:
    study = tuned(settings(n_trials=6, pruner="wilcoxon", repeats=4))
    assert all(set(t.intermediate_values) <= {0, 1, 2, 3} for t in study.trials)
    with pytest.raises(SettingsError, match="repeats"):
        settings(pruner="wilcoxon")


def test_repeats_use_other_seeds_and_give_their_mean(settings: Settings, tuned: Tuned) -> None:
    study = tuned(settings(n_trials=1, repeats=3), lambda config: [0.1 * (config.seed + 1)])
    assert study.trials[0].value == pytest.approx(0.2)
    assert study.trials[0].user_attrs["repeats"] == pytest.approx([0.1, 0.2, 0.3])


def test_out_of_memory_fails_its_trial_only(settings: Settings, tuned: Tuned) -> None:
    calls: list[int] = []

    def curve(config: TrainConfig) -> list[float]:
        calls.append(1)
        if len(calls) == 1:
            raise torch.OutOfMemoryError("tried to allocate 80 GiB")
        return by_lr(config)

    study = tuned(settings(n_trials=4), curve)
    assert states(study)[0] == TrialState.FAIL
    assert "out of memory" in study.trials[0].user_attrs[REASON]
    assert study.trials[0].value is None
    assert states(study)[1:].count(TrialState.FAIL) == 0
    assert len(study.trials) == 4
    assert "OutOfMemoryError" in (trial_folder(settings().tune.folder, 0) / "log.txt").read_text()


def test_nan_only_is_told_with_the_reasons(settings: Settings, tuned: Tuned) -> None:
    study = tuned(settings(n_trials=3), lambda config: [float("nan")] * 3)
    assert states(study) == [TrialState.FAIL] * 3
    with pytest.raises(LeakdetError, match=r"0 of 3 trials completed.*never a finite number"):
        winner(study, maximises=True)


def test_one_nan_does_not_prune(settings: Settings, tuned: Tuned) -> None:
    study = tuned(settings(n_trials=8, n_warmup=0, n_min_trials=1), lambda config: [float("nan"), 0.5, 0.6])
    assert states(study) == [TrialState.COMPLETE] * 8
    assert study.best_value == 0.6


def test_infinity_is_no_result(settings: Settings, tuned: Tuned) -> None:
    study = tuned(settings(n_trials=1), lambda config: [float("inf")])
    assert states(study) == [TrialState.FAIL]


@pytest.mark.parametrize(
    ("stop", "code"), [(KeyboardInterrupt(), 130), (SystemExit(1), 130), (SystemExit(0), 143)]
)
def test_an_interrupted_trial_fails_and_is_taken_up_again(
    settings: Settings, tuned: Tuned, stop: BaseException, code: int
) -> None:
    calls: list[int] = []

    def curve(config: TrainConfig) -> list[float]:
        calls.append(1)
        if len(calls) == 2:
            raise stop
        return by_lr(config)

    config = settings(n_trials=4)
    with pytest.raises(Stopped) as caught:
        tuned(config, curve)
    assert caught.value.code == code
    study = tuned(config, curve)
    assert TrialState.RUNNING not in states(study)
    assert len(finished(study.trials)) == 4
    assert study.trials[1].state == TrialState.FAIL
    assert study.trials[2].params == study.trials[1].params
    assert counts(study)["interrupted"] == 1


def test_sigterm_stops_a_trial(settings: Settings, tuned: Tuned) -> None:
    def curve(config: TrainConfig) -> list[float]:
        os.kill(os.getpid(), signal.SIGTERM)
        return by_lr(config)

    with sigterm_raises(), pytest.raises(Stopped) as caught:
        tuned(settings(n_trials=2), curve)
    assert caught.value.code == 143


def test_a_trial_that_always_kills_its_process_is_given_up(settings: Settings) -> None:
    config = settings(n_trials=2, max_retries=2)
    study = open_study(config)
    dead = {**this_process(), "started_s": 1.0}  # the process number is used by another now
    for attempt in range(3):
        trial = study.ask()
        trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        trial.set_user_attr(OWNER, dead)
        assert requeue_dead(study, 2) == [attempt]
    assert len({str(t.params) for t in study.trials}) == 1
    assert [len(finished(study.trials)), TrialState.WAITING in states(study)] == [1, False]


def test_equal_parameters_are_trained_once(settings: Settings) -> None:
    space = {"batch": SearchParam(setting="data.batch_size", kind="categorical", choices=[8, 16])}
    config, trained = settings(n_trials=6, search=space, sampler="random"), []

    def curve(training: TrainConfig) -> list[float]:
        trained.append(training.data.batch_size)
        return [training.data.batch_size / 100]

    study = open_study(config)
    Worker(config, study, scripted(curve), lambda config, note: "").work()
    assert sorted(trained) == [8, 16]
    assert [t.value for t in study.trials] == [t.params["batch"] / 100 for t in study.trials]


def test_grid_ends_when_it_is_exhausted(settings: Settings, tuned: Tuned) -> None:
    space = {"batch": SearchParam(setting="data.batch_size", kind="int", low=8.0, high=24.0, step=8.0)}
    study = tuned(settings(n_trials=20, search=space, sampler="grid"), lambda config: [0.5])
    assert sorted(t.params["batch"] for t in study.trials) == [8, 16, 24]


@pytest.mark.parametrize(("keep", "left"), [("best", 1), ("all", 4), ("none", 0)])
def test_checkpoints_are_kept_by_policy(settings: Settings, tuned: Tuned, keep: str, left: int) -> None:
    config = settings(n_trials=4, keep=keep, pruner="none")
    study = tuned(config)
    kept = sorted(Path(config.tune.folder).rglob("checkpoints"))
    assert len(kept) == left
    if keep == "best":
        assert kept[0].parent == trial_folder(config.tune.folder, study.best_trial.number)


def test_ties_go_to_the_higher_auroc(settings: Settings) -> None:
    study = open_study(settings())
    for auroc in (0.6, 0.9, 0.8):
        trial = study.ask()
        trial.set_user_attr(AUROC, auroc)
        study.tell(trial, 0.75)
    assert winner(study, maximises=True).number == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"objective": "loss"}, "direction"),
        ({"repeats": 2}, "repeats"),
        (
            {"search": {**SPACE, "lr": SearchParam(setting="optimizer.lr", low=1e-4, high=1.0, log=True)}},
            r"space\.lr\.high: 0.1 / 1",
        ),
        ({"search": {"lr": SPACE["lr"]}}, r"space\.dropout"),
    ],
)
def test_another_search_under_the_same_name_is_refused(
    settings: Settings, tuned: Tuned, change: dict, said: str
) -> None:
    tuned(settings(n_trials=1))
    with pytest.raises(SettingsError, match=said) as caught:
        open_study(settings(**change))
    assert "tune.study=" in str(caught.value)


def test_other_training_settings_are_refused_too(settings: Settings, tuned: Tuned) -> None:
    tuned(settings(n_trials=1))
    config = settings(n_trials=2)
    config.patience = 3
    with pytest.raises(SettingsError, match=r"training\.patience: 15 / 3"):
        open_study(config)


def test_half_a_line_at_the_journals_end_is_dropped(settings: Settings, tuned: Tuned) -> None:
    config = settings(n_trials=2)
    tuned(config)
    with (Path(config.tune.folder) / "study.journal").open("ab") as file:
        file.write(b'{"op_code": 5, "wor')
    assert len(tuned(settings(n_trials=3)).trials) == 3


def test_a_database_that_is_not_there_is_told_without_its_password(settings: Settings) -> None:
    with pytest.raises(SettingsError) as caught:
        open_study(settings(storage="sqlite:////no/such/folder/study.db"))
    assert "cannot be opened" in str(caught.value)
    with pytest.raises(SettingsError) as caught:
        open_study(settings(storage="postgresql+nodriver://me:secret@localhost/x"))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_samplers_are_seeded(settings: Settings, tuned: Tuned, tmp_path: Path, sampler: str) -> None:
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
    assert "flatters" in verdict({"val": {"recordings": 40, "f1": {**f1, "note": None}}}) or interval is None


def test_an_f1_is_recognised_in_single_and_double_precision() -> None:
    """F1 of 18 leaks found with 11 false alarms, as training logs it and as evaluation gives it; and its neighbour, of 10."""
    assert same_f1(36 / 47, 0.7659574747085571)
    assert not same_f1(36 / 46, 0.7659574747085571)
    assert not same_f1(None, 0.5)
    assert not same_f1(None, None)
