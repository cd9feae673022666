"""A real run on two gloo processes, with recordings of unequal length: it ends, and validates what one process would."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from sklearn.metrics import confusion_matrix, f1_score, roc_auc_score

from leakdet.config import BuildConfig, SignalConfig, SplitConfig
from leakdet.storage.builder import build_store

RUN = (
    "experiment=smoke", "logger=none", "trainer.enable_progress_bar=false", "trainer.max_epochs=1", "hydra.run.dir=run",
    "optimizer.lr=0", "optimizer.min_lr=0", "data.batch_size=16", "augment.eq_db=0",
)  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unequal")
    rng = np.random.default_rng(0)
    for number in range(10):
        label = "LEAK" if number % 2 else "NORMAL"
        (folder / "audio" / label).mkdir(parents=True, exist_ok=True)
        sound = 0.1 * rng.standard_normal(int(16000 * (1 + 0.9 * number)))
        soundfile.write(folder / "audio" / label / f"{number}.wav", sound, 16000)
    signal = SignalConfig()
    split = SplitConfig(ratios=[0.5, 0.5, 0.0])
    build_store(
        BuildConfig(source=str(folder / "audio"), out=str(folder / "store"), signal=signal, split=split)
    )
    return folder / "store"


def _checked(folder: Path) -> dict[str, float]:
    """The numbers of the only validation check, in full precision."""
    with (folder / "run" / "history.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1
    return {name: float(value) for name, value in rows[0].items() if name.startswith("val/") and value}


def _recounted(folder: Path) -> dict[str, float]:
    """What scikit-learn makes of the recordings' rows."""
    with (folder / "run" / "recordings.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == "val"]
    is_leak = [int(row["is_leak"]) for row in rows]
    called = [int(row["decision"] == "leak") for row in rows]
    found = dict(
        zip(("val/tn", "val/fp", "val/fn", "val/tp"), confusion_matrix(is_leak, called).ravel(), strict=True)
    )
    area = roc_auc_score(is_leak, [float(row["leak_prob"]) for row in rows])
    return {**found, "val/recording_f1": f1_score(is_leak, called), "val/recording_auroc": area}


def test_two_processes_validate_what_one_does(
    store: Path, tmp_path: Path, process: Callable[..., Any], door: Callable[..., Any]
) -> None:
    """With a learning rate of 0 the network stays as it was drawn: all differences are differences of data."""
    found = []
    for name, start, *arguments in (
        ("one", door, "data.residency=ram"),
        ("two", process, "data.residency=stream", "trainer=ddp", "data.workers=1"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        done = start("train", *RUN, *arguments, f"data.store={store}", cwd=folder)
        assert done.returncode == 0, done.stderr
        found.append(_checked(folder))
        recounted = _recounted(folder)
        assert {key: found[-1][key] for key in recounted} == pytest.approx(recounted, abs=1e-6)
    assert found[1] == pytest.approx(found[0], rel=1e-6, abs=1e-6)
