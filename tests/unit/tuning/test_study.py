import contextlib
import math
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState
from sqlalchemy import text

from leakdet.config import SearchParam, TrainConfig, TuneConfig
from leakdet.core.errors import SettingsError
from leakdet.tuning import study as storages
from leakdet.tuning import study as study_module
from leakdet.tuning import study as trials
from leakdet.tuning.study import (
    AUROC,
    CHECKS,
    OWNER,
    REASON,
    RETRY_OF,
    STUDY_FINGERPRINT,
    check_unchanged,
    fail,
    fail_stale,
    finished,
    introduction,
    is_dead,
    open_storage,
    open_study,
    ranked,
    requeue,
    requeue_dead,
    running,
    same_parameters,
    this_process,
    trial_folder,
)

Settings = Callable[..., TuneConfig]


def states(study: optuna.Study) -> list[TrialState]:
    return [trial.state for trial in study.trials]


def ask(study: optuna.Study, lr: float = 0.1) -> optuna.Trial:
    trial = study.ask()
    trial.suggest_float("lr", lr, lr)
    return trial


def test_only_an_ended_process_of_this_host_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    owner = this_process() | {"pid": process.pid, "started_s": time.time()}
    process.wait()
    assert is_dead(owner)
    assert not is_dead(this_process())
    assert is_dead(this_process() | {"started_s": 1.0})  # the number was reused
    assert not is_dead(owner | {"host": "elsewhere"})


def test_trials_rank_by_value_then_by_auroc_then_by_number() -> None:
    study = optuna.create_study()
    for value, auroc in ((0.5, 0.9), (0.7, None), (0.7, 0.8), (0.7, 0.8), (0.9, 0.1)):
        trial = study.ask()
        trial.set_user_attr(AUROC, auroc)
        study.tell(trial, value)
    study.tell(study.ask(), state=TrialState.PRUNED)
    assert [trial.number for trial in ranked(study.trials, maximises=True)] == [4, 2, 3, 1, 0]
    assert [trial.number for trial in ranked(study.trials, maximises=False)] == [0, 2, 3, 1, 4]


def test_a_retried_trial_does_not_count_and_its_retry_has_its_parameters() -> None:
    study = optuna.create_study()
    ask(study)
    assert [trial.number for trial in running(study.trials)] == [0]
    requeue(study, study.trials[0], most=1)
    fail(study, study.trials[0], "why")
    fail(study, study.trials[0], "another worker was slower")
    assert states(study) == [TrialState.FAIL, TrialState.WAITING]
    assert study.trials[0].user_attrs[REASON] == "another worker was slower" or (
        study.trials[0].user_attrs[REASON] == "why"
    )
    assert finished(study.trials) == []
    again = ask(study, 0.1)
    assert again.params == study.trials[0].params
    requeue(study, study.trials[1], most=1)  # given up
    assert states(study) == [TrialState.FAIL, TrialState.RUNNING]


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


def test_a_trial_without_an_owner_is_queued_again_after_a_while(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = open_study(settings())
    ask(study)
    assert requeue_dead(study, 2) == []
    monkeypatch.setattr(trials, "OWNER_WITHIN_S", -1.0)
    assert requeue_dead(study, 2) == [0]
    assert "before it recorded its owner" in study.trials[0].user_attrs[REASON]


def test_a_running_trial_of_a_living_process_is_left_alone(settings: Settings) -> None:
    study = open_study(settings())
    ask(study).set_user_attr(OWNER, this_process())
    assert requeue_dead(study, 2) == []
    assert this_process()["pid"] == os.getpid()


def test_only_complete_trials_with_exactly_these_parameters_are_the_same() -> None:
    study = optuna.create_study()
    study.tell(ask(study, 0.1), 1.0)
    study.tell(ask(study, 0.2), state=TrialState.PRUNED)
    same = same_parameters(study, {"lr": 0.1}, number=9)
    assert same is not None
    assert same.number == 0
    assert same_parameters(study, {"lr": 0.1}, number=0) is None
    assert same_parameters(study, {"lr": 0.2}, number=9) is None
    assert same_parameters(study, {"lr": 0.1, "more": 1}, number=9) is None


def test_folders_of_trials_sort_by_number(tmp_path: Path) -> None:
    assert trial_folder(tmp_path, 12) == tmp_path / "trials" / "0012"


Tuned = Callable[..., optuna.Study]


def test_a_file_that_is_no_journal_is_refused(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("{}\n")
    with pytest.raises(SettingsError, match=r"notes\.txt is no journal of Optuna"):
        open_storage(settings(storage=str(tmp_path / "notes.txt")).tune)


def test_a_trial_in_a_database_sends_heartbeats_and_is_queued_again_without(
    settings: Settings, tuned: Tuned, tmp_path: Path
) -> None:
    config = settings(storage=f"sqlite:///{tmp_path / 'study.db'}", n_trials=1)
    study = tuned(config)
    storage = open_storage(config.tune)
    assert isinstance(storage, optuna.storages.RDBStorage)
    with storage.engine.connect() as connection:
        beats = connection.execute(text("select count(*) from trial_heartbeats")).scalar()
        assert beats == 1
    with pytest.warns(UserWarning, match="Heartbeat of storage"):
        stale = study.ask()
    study._storage.record_heartbeat(stale._trial_id)
    with storage.engine.begin() as connection:
        connection.execute(text("update trial_heartbeats set heartbeat = '2001-01-01'"))
    fail_stale(study)
    states = [trial.state for trial in study.get_trials(deepcopy=False)]
    assert states == [TrialState.COMPLETE, TrialState.FAIL, TrialState.WAITING]
    assert study.trials[2].user_attrs[RETRY_OF] == 1
    for each in (storage, study._storage._backend):
        each.remove_session()
        each.engine.dispose()


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


def changed(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


def test_a_database_of_another_version_or_that_may_not_be_written_is_told(
    settings: Settings, tmp_path: Path
) -> None:
    path = tmp_path / "study.db"
    config = settings(storage=f"sqlite:///{path}")
    storage = open_study(config)._storage._backend
    storage.remove_session()
    storage.engine.dispose()
    read_only = settings(storage=f"sqlite:///file:{path}?mode=ro&uri=true", study="another")
    with pytest.raises(
        SettingsError, match=r"study\.db cannot be written: .*readonly.*tune\.folder"
    ):
        open_study(read_only)
    changed(
        path,
        "UPDATE version_info SET schema_version=11, library_version='2.0.0'",
        "UPDATE alembic_version SET version_num='v2.6.0.a'",
    )
    with pytest.raises(SettingsError, match=r"study\.db cannot be used: .*optuna storage upgrade"):
        open_study(config)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[str]:
    """Optuna's server in front of a journal, as docs/tuning.md starts it."""
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install grpcio protobuf")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = (
        "import optuna as o; from optuna.storages.journal import JournalFileBackend as F; "
        "journal = o.storages.JournalStorage(F('study.journal')); "
        f"o.storages.run_grpc_proxy_server(journal, host='127.0.0.1', port={port})"
    )
    with subprocess.Popen(
        [sys.executable, "-c", serve], cwd=tmp_path, stderr=subprocess.DEVNULL
    ) as server:
        yield f"grpc://127.0.0.1:{port}"
        server.kill()


def test_a_study_runs_through_optunas_proxy(
    settings: Settings, tuned: Tuned, tmp_path: Path, proxy: str
) -> None:
    tuned(settings(n_trials=3, storage=proxy))
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "study.journal"))
    behind = optuna.load_study(
        study_name="default", storage=optuna.storages.JournalStorage(backend)
    )
    assert [trial.state.name for trial in behind.trials] == ["COMPLETE"] * 3


def test_a_proxy_that_is_not_there_is_told(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install grpcio protobuf")
    monkeypatch.setattr(storages, "SERVER_WAIT_S", 1)
    with pytest.raises(SettingsError, match="nothing answered for 1 s"):
        open_study(settings(storage="grpc://127.0.0.1:1"))


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
