"""What a training asks of Lightning's trainer and of this machine is checked, without torch."""

from collections.abc import Callable

import pytest

from leakdet.config import TrainConfig
from leakdet.config.conflicts import check_trainer
from leakdet.core.errors import SettingsError

Configured = Callable[..., TrainConfig]


@pytest.mark.parametrize(
    "override",
    [
        "trainer.limit_val_batches=1",
        "trainer.limit_val_batches=0",
        "trainer.limit_val_batches=0.5",
        "+trainer.overfit_batches=2",
        "+trainer.overfit_batches=0.1",
        "+trainer.fast_dev_run=true",
    ],
)
def test_a_part_of_the_validation_recordings_is_refused_by_name(
    override: str, configured: Configured
) -> None:
    with pytest.raises(SettingsError, match="part of the validation") as refused:
        check_trainer(configured(override))
    name, value = override.lstrip("+").split("=")
    assert f"{name}={value}".lower() in str(refused.value).lower()


def test_all_validation_recordings_are_allowed(configured: Configured) -> None:
    check_trainer(configured("trainer.limit_val_batches=1.0", "+trainer.overfit_batches=0"))


@pytest.mark.parametrize(
    "override", ["trainer.devices=1000", "trainer.devices=3", "data.workers=9"]
)
def test_processes_are_counted_before_any_is_started(
    override: str, configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with pytest.raises(SettingsError, match=rf"{override}: .*at most . on the 2 cores"):
        check_trainer(configured("trainer.accelerator=cpu", override))
    check_trainer(configured("trainer.accelerator=cpu", "trainer.devices=2", "data.workers=8"))


@pytest.mark.parametrize("precision", ["16-true", "bf16-true"])
def test_weights_in_half_precision_are_refused(precision: str, configured: Configured) -> None:
    with pytest.raises(SettingsError, match=rf"trainer\.precision={precision}: .*bf16-mixed"):
        check_trainer(configured(f"trainer.precision={precision}"))
    check_trainer(configured("trainer.precision=bf16-mixed"))


def test_a_training_on_no_batch_is_refused(configured: Configured) -> None:
    with pytest.raises(SettingsError, match="limit_train_batches=0: "):
        check_trainer(configured("+trainer.limit_train_batches=0"))


def test_lightnings_own_profilers_lead_to_ours(configured: Callable[..., TrainConfig]) -> None:
    with pytest.raises(SettingsError, match=r"trainer\.profiler=simple.*profile=phases"):
        check_trainer(configured("+trainer.profiler=simple"))
