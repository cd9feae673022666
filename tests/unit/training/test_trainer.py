"""A trainer that cannot be made is told with those that can; the device decides the precision."""

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
from leakdet.training.trainer import TRAINERS, make_trainer, suit_device

Configured = Callable[..., TrainConfig]
CONF = Path(__file__).parents[3] / "conf"


@pytest.mark.parametrize(
    ("override", "what"),
    [
        pytest.param(
            "trainer=gpu",
            "gpu",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here"),
        ),
        ("+trainer.strategy=nonesuch", "nonesuch"),
        ("+trainer.nonesuch=3", "nonesuch"),
    ],
)
def test_a_trainer_that_cannot_be_is_told_with_the_ones_that_can(
    override: str, what: str, configured: Configured, tmp_path: Path
) -> None:
    with pytest.raises(
        SettingsError, match=rf"(?s)trainer: .*{what}.*trainer= one of cpu, gpu, ddp, debug"
    ):
        make_trainer(configured(override), tmp_path)


def test_the_trainers_that_are_named_are_those_that_ship() -> None:
    assert set(TRAINERS) == {path.stem for path in (CONF / "trainer").glob("*.yaml")}


@pytest.fixture
def precision() -> Iterator[Callable[[], str]]:
    before = torch.get_float32_matmul_precision()
    yield torch.get_float32_matmul_precision
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    ("kind", "expected"), [(CPUAccelerator, "highest"), (CUDAAccelerator, "high")]
)
def test_tf32_on_an_accelerator_only(
    kind: Any, expected: str, precision: Callable[[], str]
) -> None:
    suit_device(Mock(spec=pl.Trainer, accelerator=kind()))
    assert precision() == expected
