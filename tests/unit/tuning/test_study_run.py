import logging
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from leakdet.config import TuneConfig
from leakdet.errors import LeakdetError
from leakdet.tuning import study_run
from leakdet.tuning.study import open_study
from leakdet.tuning.study_run import Training, run_study

Settings = Callable[..., TuneConfig]


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
    monkeypatch.setattr(study_run, "end_workers", ended.extend)
    process = Mock(spec=subprocess.Popen)

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    config = settings(n_trials=3, workers=2, finish=False)
    interrupted = Training(stop, training.whole, training.to_yaml)
    assert run_study(config, open_study(config), interrupted, [process]) == 130
    assert ended == [process]
    assert "interrupted (Ctrl-C): repeat the command to go on" in capsys.readouterr().err
    assert run_study(settings(n_trials=3, finish=False), open_study(config), training) == 0
    assert len(open_study(config).trials) == 4  # the interrupted one and three that count


def test_a_storage_that_was_taken_away_is_a_sentence_and_ends_the_other_workers(
    settings: Settings, training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Any] = []
    monkeypatch.setattr(study_run, "end_workers", ended.extend)
    process = Mock(spec=subprocess.Popen)
    config = settings(n_trials=3, workers=2, finish=False)
    journal = Path(config.tune.folder) / "study.journal"

    def replaced(*_: Any) -> None:
        journal.write_text("another worker has begun a new one\n" * 1000)

    study = open_study(config)
    with pytest.raises(LeakdetError, match=r"storage does not answer, or was replaced.*Repeat"):
        run_study(config, study, Training(replaced, training.whole, training.to_yaml), [process])
    assert ended == [process]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError()])
def test_a_failing_system_ends_the_other_workers(
    error: Exception, settings: Settings, training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Any] = []
    monkeypatch.setattr(study_run, "end_workers", ended.extend)
    process = Mock(spec=subprocess.Popen)
    config = settings(n_trials=3, workers=2, finish=False)
    study = open_study(config)
    monkeypatch.setattr(study_run, "finish", Mock(side_effect=error))
    with pytest.raises(type(error)):
        run_study(config, study, training, [process])
    assert ended == [process]
