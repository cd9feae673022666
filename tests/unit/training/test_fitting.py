"""Settings that make no trainer are told with their remedy; what an accelerator multiplies, and how."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.accelerators import CPUAccelerator, CUDAAccelerator

from leakdet.config import TrainConfig
from leakdet.errors import SettingsError
from leakdet.training.contradictions import check_settings
from leakdet.training.fitting import TRAINERS, make_trainer, use_tensor_cores

Configured = Callable[..., TrainConfig]
CONF = Path(__file__).parents[3] / "conf"


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
    with pytest.raises(SettingsError, match="a part of the validation recordings gives no result") as refused:
        check_settings(configured(override))
    name, value = override.lstrip("+").split("=")
    assert f"{name}={value}".lower() in str(refused.value).lower()


def test_all_validation_recordings_are_allowed(configured: Configured) -> None:
    check_settings(configured("trainer.limit_val_batches=1.0", "+trainer.overfit_batches=0"))


@pytest.mark.parametrize(
    ("override", "what"),
    [
        pytest.param(
            "trainer=gpu",
            "gpu",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here"),
        ),
        ("trainer.precision=x", "'x'"),
        ("+trainer.strategy=nonesuch", "nonesuch"),
        ("+trainer.max_epoch=3", "max_epoch"),
    ],
)
def test_a_trainer_that_cannot_be_is_told_with_the_ones_that_can(
    override: str, what: str, configured: Configured, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=rf"(?s)trainer: .*{what}.*trainer= one of cpu, gpu, ddp, debug"):
        make_trainer(configured(override), tmp_path)


def test_the_trainers_that_are_named_are_those_that_ship() -> None:
    assert set(TRAINERS) == {path.stem for path in (CONF / "trainer").glob("*.yaml")}


def test_a_logger_argument_that_does_not_exist_is_told(configured: Configured, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"logger\.csv: .*nonesuch"):
        make_trainer(configured("logger=csv", "+logger.csv.nonesuch=1"), tmp_path)


@pytest.fixture
def precision() -> Iterator[Callable[[], str]]:
    before = torch.get_float32_matmul_precision()
    yield torch.get_float32_matmul_precision
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(("kind", "expected"), [(CPUAccelerator, "highest"), (CUDAAccelerator, "high")])
def test_tf32_on_an_accelerator_only(kind: Any, expected: str, precision: Callable[[], str]) -> None:
    use_tensor_cores(Mock(spec=pl.Trainer, accelerator=kind()))
    assert precision() == expected
