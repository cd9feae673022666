import contextlib
import json
import math
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from leakdet.config import SearchParam, TrainConfig, TuneConfig
from leakdet.core.errors import SettingsError
from leakdet.tuning import study as study_module
from leakdet.tuning.space import to_json
from leakdet.tuning.study import (
    AUROC,
    CHECKS,
    KILLED,
    REASON,
    STUDY_FINGERPRINT,
    check_unchanged,
    finished,
    introduction,
    network_file_system,
    open_study,
    ranked,
    reason_of_failure,
    requeue,
    requeue_killed,
    running,
    same_parameters,
    trial_folder,
)

Settings = Callable[..., TuneConfig]
Tuned = Callable[..., optuna.Study]


def states(study: optuna.Study) -> list[TrialState]:
    return [trial.state for trial in study.trials]


def ask(study: optuna.Study, lr: float = 0.1) -> optuna.Trial:
    trial = study.ask()
    trial.suggest_float("lr", lr, lr)
    return trial


def test_trials_rank_by_value_then_by_auroc_then_by_number() -> None:
    study = optuna.create_study()
    for value, auroc in ((0.5, 0.9), (0.7, None), (0.7, 0.8), (0.7, 0.8), (0.9, 0.1)):
        trial = study.ask()
        trial.set_user_attr(AUROC, auroc)
        study.tell(trial, value)
    study.tell(study.ask(), state=TrialState.PRUNED)
    assert [trial.number for trial in ranked(study.trials, maximises=True)] == [4, 2, 3, 1, 0]
    assert [trial.number for trial in ranked(study.trials, maximises=False)] == [0, 2, 3, 1, 4]


def test_a_repeated_trial_does_not_count_and_its_repetition_has_its_parameters() -> None:
    study = optuna.create_study()
    ask(study).set_user_attr(REASON, "why")
    assert [trial.number for trial in running(study.trials)] == [0]
    requeue(study, study.trials[0], most=1)
    study.tell(0, state=TrialState.FAIL)
    assert states(study) == [TrialState.FAIL, TrialState.WAITING]
    assert finished(study.trials) == []
    again = ask(study, 0.1)
    assert again.params == study.trials[0].params
    assert again.user_attrs == {}
    requeue(study, study.trials[1], most=1)  # given up
    assert states(study) == [TrialState.FAIL, TrialState.RUNNING]


def killed(config: TuneConfig, where: str = "") -> None:
    """Run the next trial of a study in a process that is killed: in the trial, or in `where`."""
    lines = (
        "import json, os, sys",
        "from leakdet.config import TuneConfig, TuneSettings",
        "from leakdet.tuning.study import open_study",
        "tune, search = json.loads(sys.argv[1])",
        "opened = open_study(TuneConfig(tune=TuneSettings(**tune), search=search))",
        f"opened.sampler.{where} = lambda *_: os._exit(9)" if where else "",
        "def train(trial):",
        "    trial.suggest_float('lr', 1e-4, 1e-1, log=True)",
        "    while 'owner' not in opened.trials[trial.number].user_attrs:",
        "        pass",
        "    os._exit(9)",
        "opened.optimize(train, n_trials=1)",
    )
    given = json.dumps([asdict(config.tune), to_json(config.search)])
    program = [sys.executable, "-c", "\n".join(lines), given]
    assert subprocess.run(program, check=False).returncode == 9


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial counts as killed after a second without a heartbeat."""
    monkeypatch.setattr(study_module, "GRACE_S", 1)


@pytest.mark.usefixtures("on_disk")
@pytest.mark.slow
def test_a_trial_that_always_kills_its_process_is_given_up(
    settings: Settings, impatient: None
) -> None:
    config = settings(n_trials=2, max_retries=1)
    study = open_study(config)
    for attempt in range(2):
        killed(config)
        assert states(study)[attempt] == TrialState.RUNNING
        time.sleep(2.1)  # the clock of SQLite counts whole seconds
        requeue_killed(study, 1)
    assert states(study) == [TrialState.FAIL, TrialState.FAIL]
    assert study.trials[0].params == study.trials[1].params
    assert [reason_of_failure(trial) for trial in study.trials] == [KILLED, KILLED]
    assert [trial.number for trial in finished(study.trials)] == [1]


@pytest.mark.usefixtures("on_disk")
@pytest.mark.slow
def test_a_trial_that_was_killed_before_its_first_heartbeat_is_queued_again(
    settings: Settings, impatient: None
) -> None:
    space = {"batch": SearchParam(setting="data.batch_size", kind="int", low=8.0, high=16.0)}
    config = settings(sampler="grid", n_trials=1, search=space)
    study = open_study(config)
    killed(config, "before_trial")
    requeue_killed(study, 2)
    assert states(study) == [TrialState.RUNNING]
    time.sleep(1.1)
    requeue_killed(study, 2)
    assert states(study) == [TrialState.FAIL, TrialState.WAITING]
    fixed = [trial.system_attrs["fixed_params"] for trial in study.trials]
    assert fixed[0] == fixed[1] != {}


@pytest.mark.usefixtures("on_disk")
def test_a_trial_that_runs_is_left_alone(settings: Settings, tuned: Tuned) -> None:
    config = settings(n_trials=1)
    others = []

    def curve(_: TrainConfig) -> list[float]:
        other = open_study(config)
        requeue_killed(other, 2)
        others.extend(states(other))
        return [0.5]

    tuned(config, curve)
    assert others == [TrialState.RUNNING]


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


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("name", ["study", "a b?c#d%41{x}ü"])
def test_a_study_is_kept_in_its_folder_whatever_its_name(
    settings: Settings, tuned: Tuned, tmp_path: Path, name: str
) -> None:
    tuned(settings(n_trials=1, folder=str(tmp_path / name)))
    assert [path.name for path in tmp_path.rglob("study.db")] == ["study.db"]
    assert (tmp_path / name / "study.db").is_file()


@pytest.mark.usefixtures("on_disk")
def test_a_study_of_before_is_refused_and_can_be_copied(
    settings: Settings, tuned: Tuned, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    config = settings(n_trials=3, folder="runs/tune/old", study="old")
    params = [trial.params for trial in tuned(config).trials]
    path = Path(config.tune.folder) / "study.db"
    backend = optuna.storages.journal.JournalFileBackend(str(path.with_name("study.journal")))
    optuna.copy_study(
        from_study_name="old",
        from_storage=f"sqlite:///{path}",
        to_storage=optuna.storages.JournalStorage(backend),
    )
    path.unlink()
    with pytest.raises(SettingsError, match=r"study\.journal: .*tune\.study=NAME") as caught:
        open_study(config)
    command = str(caught.value).partition("python -c ")[2].strip('"')
    subprocess.run([sys.executable, "-c", command], check=True)
    again = tuned(settings(n_trials=4, folder="runs/tune/old", study="old"))
    assert [trial.params for trial in again.trials[:3]] == params
    assert len(again.trials) == 4


@pytest.mark.usefixtures("on_disk")
def test_a_network_file_system_is_refused_with_the_way_out(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [Mock(mountpoint="/", fstype="ext4"), Mock(mountpoint=str(tmp_path), fstype="nfs4")]
    monkeypatch.setattr(study_module.psutil, "disk_partitions", lambda all: parts)  # noqa: A006
    for storage in (None, f"sqlite:///{tmp_path}/study.db"):
        config = settings(storage=storage)
        with pytest.raises(SettingsError, match=r"tune\.storage: .*nfs4.*tune\.storage=postgresql"):
            open_study(config)
        assert not Path(config.tune.folder).exists()
    parts.append(Mock(mountpoint=str(tmp_path), fstype="tmpfs"))  # mounted over it
    assert network_file_system(tmp_path / "study.db") is None


@pytest.mark.usefixtures("on_disk")
def test_a_storage_without_heartbeats_is_refused(settings: Settings) -> None:
    with pytest.raises(SettingsError, match=r"tune\.storage=grpc://host:13000: .*postgresql://"):
        open_study(settings(storage="grpc://host:13000"))


@pytest.mark.usefixtures("on_disk")
def test_no_two_workers_take_one_queued_trial(settings: Settings) -> None:
    config = settings()
    studies = [open_study(config) for _ in range(4)]
    for number in range(12):
        studies[0].enqueue_trial({"lr": number / 100})
    numbers: list[int] = []

    def work(study: optuna.Study) -> None:
        study.optimize(lambda trial: numbers.append(trial.number) or 0.0, n_trials=3)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, studies))
    assert sorted(numbers) == list(range(12))


@pytest.mark.usefixtures("on_disk")
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


@pytest.mark.usefixtures("on_disk")
def test_a_database_of_another_version_or_that_may_not_be_written_is_told(
    settings: Settings, tmp_path: Path
) -> None:
    path = tmp_path / "study.db"
    config = settings(storage=f"sqlite:///{path}")
    open_study(config)
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
    with pytest.raises(SettingsError, match=r"tune\.repeats x tune\.folds .*5"):
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


@pytest.mark.usefixtures("on_disk")
def test_a_study_of_another_program_is_refused(settings: Settings) -> None:
    config = settings()
    path = Path(config.tune.folder) / "study.db"
    path.parent.mkdir()
    other = optuna.create_study(
        study_name=config.tune.study, storage=f"sqlite:///{path}", direction="minimize"
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


def test_the_introduction_says_what_is_searched(settings: Settings) -> None:
    config = settings(n_trials=5, workers=2)
    study = open_study(config)
    text = introduction(config, study)
    assert "study    default: 0 of 5 trials are finished" in text
    assert "search   lr, dropout" in text
    assert "2 workers" in text
