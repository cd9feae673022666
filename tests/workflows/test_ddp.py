"""DDP on two processes equals one process: steps, learning curve, one folder, a clean end."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakdet.training.checkpoints import read_checkpoint

RUN = (
    "experiment=smoke",
    "logger=none",
    "log=full",
    "augment.eq_db=0",
    "network.dropout=0",
    "labels=multiclass",  # adds metrics of all classes to those of leaks
    "trainer.max_epochs=2",
)


@pytest.mark.slow
def test_two_processes_have_the_learning_curve_of_one(
    demo_store: Path, tmp_path: Path, process: Callable[..., Any], door: Callable[..., Any]
) -> None:
    settings = (
        *RUN,
        f"data.store={demo_store}",
        "data.batch_size=17",
        "trainer.accumulate_grad_batches=2",
    )
    for name, start, trainer in (("one", door, "trainer=cpu"), ("two", process, "trainer=ddp")):
        result = start("train", trainer, *settings, f"hydra.run.dir={name}", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert result.stdout.count("\nbatches  ") == 1  # by rank 0 alone
        assert "Warning" not in result.stderr
        assert ".py:" not in result.stderr, result.stderr  # where a warning would come from
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]  # one folder a run
    one, two = (rows(tmp_path / name) for name in ("one", "two"))
    assert len(one) == len(two) == 2
    for single, double in zip(one, two, strict=True):
        for column, value in single.items():
            if not column.startswith("gradient"):
                assert float(double[column]) == pytest.approx(float(value), rel=1e-3, abs=1e-4), (
                    column
                )
    steps = [
        read_checkpoint(tmp_path / name / "checkpoints" / "last.ckpt")["global_step"]
        for name in ("one", "two")
    ]
    assert steps[0] == steps[1]


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "history.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
