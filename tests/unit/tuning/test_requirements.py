import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakdet.config import SearchParam, TuneConfig
from leakdet.errors import InputError, SettingsError
from leakdet.tuning.requirements import check_requirements, share_cores

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
    with pytest.raises(SettingsError, match=r"trainer\.accelerator=cuda: torch finds no GPU"):
        check_requirements(config, multirun=False)


def test_a_finder_of_what_the_study_searches_is_refused(settings: Settings) -> None:
    space = {"rate": SearchParam(setting="optimizer.lr", low=0.1, high=1.0)}
    config = settings(search=space)
    config.find_lr = True
    with pytest.raises(SettingsError, match=r"find_lr=true: .*optimizer\.lr.*~search\.rate"):
        check_requirements(config, multirun=False)
    config.find_lr, config.find_batch_size = False, True
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
