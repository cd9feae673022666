"""What may differ between a run and the checkpoint that it continues."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from leakdet.config import TrainConfig
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.resume_compatibility import (
    RESUME_KEY,
    run_differences,
    store_fingerprint,
    with_chosen_settings,
)
from leakdet.training.stopping import resolved

Configured = Callable[..., TrainConfig]
Opened = Callable[[TrainConfig], LeakDataModule]


def checkpoint(config: TrainConfig, data: LeakDataModule) -> dict[str, Any]:
    return {
        "hyper_parameters": asdict(resolved(config, data)),
        RESUME_KEY: {"store": store_fingerprint(data)},
    }


@pytest.mark.parametrize(
    "override",
    [
        "patience=3",
        "loss_patience=0",
        "trainer.max_epochs=99",
        "trainer.log_every_n_steps=7",
        "logger=csv",
        "callbacks=none",
        "data.cache=/elsewhere",
        "demo.sites=4",
    ],
)
def test_what_changes_neither_weights_nor_metrics_may_differ(
    override: str, configured: Configured, opened: Opened
) -> None:
    data = opened(configured())
    assert run_differences(checkpoint(configured(), data), configured(override), data) == []


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("seed=7", "seed: 0 / 7"),
        ("data.batch_size=8", "data.batch_size: 16 / 8"),
        ("trainer.precision=bf16-mixed", "trainer.precision: 32-true / bf16-mixed"),
        ("+trainer.gradient_clip_algorithm=value", "trainer.gradient_clip_algorithm: None / value"),
        ("callbacks.extra=[a:B]", "callbacks.extra: [] / ['a:B']"),
        ("decision.policy=fixed", "decision.policy: max_f1 / fixed"),
    ],
)
def test_what_changes_them_is_named_with_both_values(
    override: str, named: str, configured: Configured, opened: Opened
) -> None:
    data = opened(configured())
    assert run_differences(checkpoint(configured(), data), configured(override), data) == [named]


def test_a_run_cannot_end_before_what_it_has_reached(
    configured: Configured, opened: Opened
) -> None:
    data = opened(configured())
    kept = {**checkpoint(configured(), data), "epoch": 4}
    assert run_differences(kept, configured("trainer.max_epochs=4"), data) == []
    assert run_differences(kept, configured("trainer.max_epochs=3"), data) == [
        "trainer.max_epochs: epoch 5 was reached / 3"
    ]


def test_other_data_is_a_difference(configured: Configured, opened: Opened) -> None:
    data = opened(configured())
    kept = checkpoint(configured(), data)
    kept[RESUME_KEY]["store"] = "0" * 12
    (only,) = run_differences(kept, configured(), data)
    assert only == f"the data's fingerprint: {'0' * 12} / {store_fingerprint(data)}"


def test_a_setting_that_an_older_version_lacked_was_at_its_default(
    configured: Configured, opened: Opened
) -> None:
    data = opened(configured())
    kept = checkpoint(configured(), data)
    del kept["hyper_parameters"]["callbacks"]
    assert run_differences(kept, configured(), data) == []
    assert len(run_differences(kept, configured("callbacks.extra=[a:B]"), data)) == 1


def test_settings_that_finders_chose_are_taken_over(configured: Configured, opened: Opened) -> None:
    first = configured("optimizer.lr=0.5", "data.batch_size=64")
    data = opened(first)
    found = configured("find_lr=true", "find_batch_size=true")
    assert run_differences(checkpoint(first, data), found, data) == []
    resumed = with_chosen_settings(found, checkpoint(first, data))
    assert (resumed.optimizer.lr, resumed.data.batch_size) == (0.5, 64)
    assert with_chosen_settings(configured(), checkpoint(first, data)) == configured()
