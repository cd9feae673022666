"""What a run says before it starts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from leakdet.config import TrainConfig
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.introduction import introduction, stops_when

Configured = Callable[..., TrainConfig]
Opened = Callable[[TrainConfig], LeakDataModule]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("trainer.max_epochs=2",), "at epoch 2, or after 15 epochs without a better recording F1"),
        (("trainer.check_val_every_n_epoch=10", "patience=3"), "after 30 epochs (3 checks) without"),
        (("+trainer.val_check_interval=0.25", "patience=3"), "after 0.75 epochs (3 checks)"),
        (("+trainer.val_check_interval=100", "patience=3"), "after 3 validation checks without"),
        (("trainer.max_epochs=-1", "loss_patience=0"), "after 15 epochs without a better recording F1"),
        (("loss_patience=4",), "or after 4 epochs of rising loss"),
    ],
)  # fmt: skip
def test_a_run_tells_in_epochs_when_it_will_stop(
    overrides: tuple[str, ...], expected: str, configured: Configured
) -> None:
    assert expected in stops_when(configured(*overrides))


def lines_of(config: TrainConfig, data: LeakDataModule) -> dict[str, str]:
    lines = introduction(config, data).splitlines()
    return {line[:9].strip(): line[9:] for line in lines}


def test_the_numbers_are_those_of_the_store(
    configured: Configured, opened: Opened, demo_store: Path
) -> None:
    config = configured()
    data = opened(config)
    lines = lines_of(config, data)
    train = data.splits.train
    assert lines["store"] == str(demo_store)
    assert lines["train"] == f"{train.recordings} recordings, {train.windows} windows"
    assert "50%" in lines["classes"]
    assert lines["classes"].endswith(f"the leak class is {data.leak_label}")
    assert config.network.name in lines["network"]
    assert "note" not in lines


def test_a_null_test_is_told(configured: Configured, opened: Opened) -> None:
    config = configured("data.shuffle_labels=true")
    lines = lines_of(config, opened(config))
    assert lines["note"].startswith("LABELS ARE SHUFFLED")
