import logging
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from leakdet.config import SearchParam, TuneConfig
from leakdet.core.errors import InputError, LeakdetError, SettingsError
from leakdet.runs import tuning
from leakdet.runs.tuning import Training, check_requirements, run_study, share_cores
from leakdet.tuning.study import open_study

Settings = Callable[..., TuneConfig]


def test_what_no_trial_lacks_is_accepted(settings: Settings, demo_store: Path) -> None:
    config = settings(workers=2)
    config.data.store = str(demo_store)
    check_requirements(config, multirun=True)


@pytest.mark.parametrize(
    "trainer",
    [
        {"devices": 2},
        {"devices": [0, 1]},
        {"devices": -1},
        {"strategy": "ddp"},
        {"num_nodes": 2},
    ],
)
def test_a_trial_on_several_devices_is_refused(settings: Settings, trainer: dict[str, Any]) -> None:
    config = settings()
    config.trainer |= trainer
    with pytest.raises(SettingsError, match=r"one device.*tune\.workers=4"):
        check_requirements(config, multirun=False)


def test_several_workers_need_a_multirun_but_the_started_ones_do_not(settings: Settings) -> None:
    with pytest.raises(SettingsError, match=r"needs -m: .* -m tune\.workers=3"):
        check_requirements(settings(workers=3), multirun=False)
    check_requirements(settings(workers=3, worker=1), multirun=False)


def test_a_missing_gpu_is_told_before_the_first_trial(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    config = settings()
    config.trainer |= {"accelerator": "cuda"}
    with pytest.raises(SettingsError, match=r"trainer\.accelerator=cuda: .*no GPU"):
        check_requirements(config, multirun=False)


def test_a_finder_of_what_the_study_searches_is_refused(settings: Settings) -> None:
    space = {"rate": SearchParam(setting="optimizer.lr", low=0.1, high=1.0)}
    config = settings(search=space)
    config.find_lr = True
    with pytest.raises(SettingsError, match=r"find_lr=true: .*optimizer\.lr.*~search\.rate"):
        check_requirements(config, multirun=False)
    config.find_lr = False
    check_requirements(config, multirun=False)


def test_a_faulty_space_or_store_leaves_no_study(settings: Settings, tmp_path: Path) -> None:
    space = {"lr": SearchParam(setting="optimizer.lrr", low=0.1, high=1.0)}
    with pytest.raises(SettingsError, match="did you mean lr"):
        check_requirements(settings(search=space), multirun=False)
    config = settings()
    config.data.store = str(tmp_path / "typo")
    with pytest.raises(InputError, match="typo"):
        check_requirements(config, multirun=False)
    assert not Path(config.tune.folder).exists()


def test_workers_share_the_cores_unless_threads_are_given(settings: Settings) -> None:
    cores = len(os.sched_getaffinity(0))
    assert share_cores(settings()).threads == 0
    assert share_cores(settings(workers=2)).threads == max(1, cores // 2)
    assert share_cores(settings(workers=10 * cores)).threads == 1
    config = settings(workers=2)
    config.threads = 7
    assert share_cores(config).threads == 7


@pytest.fixture
def training(scripted: Any, rising: Any) -> Training:
    return Training(scripted(rising), lambda folder, config: {}, lambda config, note: "")


def test_a_study_runs_to_its_result(
    settings: Settings, training: Training, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "leakdet")
    config = settings(n_trials=3, finish=False)
    assert run_study(config, open_study(config), training) == 0
    for name in ("result.json", "trials.csv", "best.yaml", "tune.html"):
        assert (Path(config.tune.folder) / name).is_file()
    assert "best     trial" in caplog.text


def test_a_stop_ends_the_other_workers_and_has_its_exit_code(
    settings: Settings,
    training: Training,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended: list[Any] = []
    monkeypatch.setattr(tuning, "end_workers", ended.extend)
    process = Mock(spec=subprocess.Popen)

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    config = settings(n_trials=3, workers=2, finish=False)
    interrupted = Training(stop, training.whole, training.to_yaml)
    assert run_study(config, open_study(config), interrupted, [process]) == 130
    assert ended == [process]
    assert "interrupted (Ctrl-C): repeat the command" in capsys.readouterr().err
    assert run_study(settings(n_trials=3, finish=False), open_study(config), training) == 0
    assert len(open_study(config).trials) == 4  # the interrupted one and three that count


@pytest.mark.usefixtures("on_disk")
def test_a_storage_that_was_taken_away_is_a_sentence_and_ends_the_other_workers(
    settings: Settings, training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Any] = []
    monkeypatch.setattr(tuning, "end_workers", ended.extend)
    process = Mock(spec=subprocess.Popen)
    config = settings(n_trials=3, workers=2, finish=False)
    database = Path(config.tune.folder) / "study.db"

    def replaced(*_: Any) -> None:
        database.write_text("no database at all\n" * 1000)

    study = open_study(config)
    with pytest.raises(LeakdetError, match=r"storage .*replaced.*Repeat"):
        run_study(config, study, Training(replaced, training.whole, training.to_yaml), [process])
    assert ended == [process]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError()])
def test_a_failing_system_ends_the_other_workers(
    error: Exception, settings: Settings, training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Any] = []
    monkeypatch.setattr(tuning, "end_workers", ended.extend)
    process = Mock(spec=subprocess.Popen)
    config = settings(n_trials=3, workers=2, finish=False)
    study = open_study(config)
    monkeypatch.setattr(tuning, "finish", Mock(side_effect=error))
    with pytest.raises(type(error)):
        run_study(config, study, training, [process])
    assert ended == [process]
