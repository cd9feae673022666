"""Small runs in this process on the shared demo store."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
from tests.unit.conftest import QUIET

from leakdet.config import TrainConfig
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import fit

Configured = Callable[..., TrainConfig]
Fitted = Callable[..., pl.Trainer]
Opened = Callable[[TrainConfig], LeakDataModule]


@pytest.fixture(scope="session")
def quiet() -> tuple[str, ...]:
    """The overrides of `configured`, for a run in a process of its own."""
    return QUIET


@pytest.fixture
def opened(demo_store: Path) -> Opened:
    """`opened(config)`: the data of a run on the demo store, set up."""

    def open_store(config: TrainConfig) -> LeakDataModule:
        data = LeakDataModule(config, demo_store)
        data.setup("fit")
        return data

    return open_store


@pytest.fixture
def fitted(configured: Configured, demo_store: Path) -> Fitted:
    """`fitted(folder, "seed=1", …)`: the trainer of a finished run in that folder."""

    def run(folder: Path, *overrides: str) -> pl.Trainer:
        config = configured(*overrides)
        return fit(LeakDataModule(config, demo_store), folder)

    return run


@pytest.fixture
def profiled(configured: Configured, demo_store: Path, tmp_path: Path) -> Callable[..., Any]:
    """`profiled("profile=phases", callback=…)`: the profiler of three epochs in `tmp_path / "run"`."""

    def run(*overrides: str, callback: pl.Callback | None = None) -> Any:
        config = configured("trainer.max_epochs=3", "patience=9", *overrides)
        extra = [callback] if callback else []
        trainer = fit(LeakDataModule(config, demo_store), tmp_path / "run", extra)
        return trainer.profiler  # type: ignore[attr-defined]

    return run
