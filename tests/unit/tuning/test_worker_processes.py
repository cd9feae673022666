import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from leakdet.config import TuneConfig
from leakdet.tuning import worker_processes
from leakdet.tuning.worker_processes import end_workers, start_workers, wait_for_workers

Settings = Callable[..., TuneConfig]
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """Commands and environments of the processes that would have been started."""
    calls: list[tuple[list[str], dict[str, str]]] = []

    process = Mock(spec=subprocess.Popen)

    def popen(command: list[str], env: dict[str, str]) -> Mock:
        calls.append((command, env))
        return process

    monkeypatch.setattr(worker_processes.subprocess, "Popen", popen)
    return calls


def test_the_other_workers_get_the_users_arguments_and_their_number(
    settings: Settings, started: Any
) -> None:
    start_workers(settings(workers=3), ["-m", "tune.workers=3", "data.store=a b"])
    assert [command[1:] for command, _ in started] == [
        ["-m", "leakdet.tune", "tune.workers=3", "data.store=a b", f"tune.worker={number}"]
        for number in (1, 2)
    ]


@pytest.mark.parametrize("accelerator", ["gpu", "auto"])
@pytest.mark.parametrize(
    ("visible", "devices"),
    [("4,7", ["7", "4", "7"]), ("", ["1", "0", "1"]), (None, ["1", "0", "1"])],
)
def test_gpus_are_dealt_out_in_turn(
    settings: Settings,
    started: Any,
    monkeypatch: pytest.MonkeyPatch,
    accelerator: str,
    visible: str | None,
    devices: list[str],
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    config = settings(workers=4)
    config.trainer["accelerator"] = accelerator
    start_workers(config, ["-m"])
    assert [env["CUDA_VISIBLE_DEVICES"] for _, env in started] == devices


@pytest.mark.parametrize(("accelerator", "gpus"), [("auto", 0), ("cpu", 2)])
def test_without_a_gpu_to_use_the_environment_stays(
    settings: Settings,
    started: Any,
    monkeypatch: pytest.MonkeyPatch,
    accelerator: str,
    gpus: int,
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    config = settings(workers=3)
    config.trainer["accelerator"] = accelerator
    start_workers(config, ["-m"])
    assert [env["CUDA_VISIBLE_DEVICES"] for _, env in started] == ["5", "5"]


def test_ended_workers_have_ended_and_killed_ones_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "leakdet")
    ended, killed = subprocess.Popen(SLEEP), subprocess.Popen(SLEEP)
    end_workers([ended])
    assert ended.returncode == -15
    killed.kill()
    done = subprocess.Popen([sys.executable, "-c", ""])
    wait_for_workers([done, killed])
    assert "worker 2 was killed (signal 9); its trial was queued again" in caplog.text
    assert "worker 1" not in caplog.text
