"""DDP on recordings of unequal length: samples of each rank, validation, signals, a lost rank."""

import csv
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import soundfile
from sklearn.metrics import confusion_matrix, f1_score, roc_auc_score

from leakdet.building.builder import build_store
from leakdet.config import BuildConfig, SignalConfig, SplitConfig
from leakdet.storage.store import open_leakdet_split
from leakdet.training.checkpoints import read_checkpoint

RUN = ("experiment=smoke", "logger=none", "trainer.enable_progress_bar=false")
RUN += ("trainer.max_epochs=2", "hydra.run.dir=run", "data.batch_size=16", "augment.eq_db=0")
RUN += ("optimizer.lr=0", "optimizer.min_lr=0")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unequal")
    rng = np.random.default_rng(0)
    for number in range(10):
        label = "LEAK" if number % 2 else "NORMAL"
        (folder / "audio" / label).mkdir(parents=True, exist_ok=True)
        sound = 0.1 * rng.standard_normal(int(16000 * (1 + 0.9 * number)))
        soundfile.write(folder / "audio" / label / f"{number}.wav", sound, 16000)
    split = SplitConfig(ratios=[0.5, 0.5, 0.0])
    build_store(
        BuildConfig(
            str(folder / "audio"), str(folder / "store"), signal=SignalConfig(), split=split
        )
    )
    return folder / "store"


def _validation(folder: Path) -> dict[str, float]:
    """Metrics of the last validation check, in full precision."""
    with (folder / "run" / "history.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2
    return {
        name: float(value) for name, value in rows[1].items() if name.startswith("val/") and value
    }


def _recounted(folder: Path) -> dict[str, float]:
    """The same metrics by scikit-learn from the rows of recordings.csv."""
    with (folder / "run" / "recordings.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == "val"]
    is_leak = [int(row["is_leak"]) for row in rows]
    called = [int(row["decision"] == "leak") for row in rows]
    tn, fp, fn, tp = confusion_matrix(is_leak, called).ravel()
    return {
        "val/tn": tn,
        "val/fp": fp,
        "val/fn": fn,
        "val/tp": tp,
        "val/recording_f1": f1_score(is_leak, called),
        "val/recording_auroc": roc_auc_score(is_leak, [float(row["leak_prob"]) for row in rows]),
    }


WATCH = """
import json
from pathlib import Path
from lightning.pytorch.callbacks import Callback

class Watch(Callback):
    seen = []
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        heads = batch.mel.flatten(1)[:, :8].tolist()
        self.seen += [[row, *head] for row, head in zip(batch.recording.tolist(), heads)]
    def on_train_epoch_end(self, trainer, module):
        name = f"{trainer.current_epoch}-{trainer.global_rank}.json"
        Path(name).write_text(json.dumps(self.seen))
        self.seen.clear()
"""


def test_two_processes_read_each_window_once_an_epoch_and_validate_like_one(
    store: Path, tmp_path: Path, process: Callable[..., Any], door: Callable[..., Any]
) -> None:
    """With a learning rate of 0 the weights stay equal: any difference comes from the data."""
    results = []
    watched = ("data.workers=3", "data.batch_size=7", "callbacks.extra=[watch:Watch]")
    for name, start, *arguments in (
        ("one", door, "data.residency=ram"),
        ("two", process, "data.residency=stream", "trainer=ddp", *watched),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "watch.py").write_text(WATCH, encoding="utf-8")
        words = ("data.sampling=natural", *arguments, f"data.store={store}")
        result = start("train", *RUN, *words, cwd=folder)
        assert result.returncode == 0, result.stderr
        results.append(_validation(folder))
        recounted = _recounted(folder)
        assert {key: results[-1][key] for key in recounted} == pytest.approx(recounted, abs=1e-6)
    assert results[1] == pytest.approx(results[0], rel=1e-6, abs=1e-6)
    _check_windows(store, tmp_path / "two")


def _check_windows(store: Path, folder: Path) -> None:
    """Each rank about half of the windows, all together each once, in another order each epoch."""
    split = open_leakdet_split(store, "train")
    owners = np.repeat(np.arange(split.recordings), split.windows_per_recording)
    heads = np.array(split.read(0, split.windows)).reshape(split.windows, -1)[:, :8]
    windows = sorted(
        [int(row), *head] for row, head in zip(owners, heads.astype(float).tolist(), strict=True)
    )
    orders = []
    for epoch in (0, 1):
        seen = [json.loads((folder / f"{epoch}-{rank}.json").read_text()) for rank in (0, 1)]
        assert sorted(seen[0] + seen[1]) == windows
        assert abs(len(seen[0]) - len(seen[1])) <= len(seen[0]) // 3 + 1
        orders.append(seen)
    assert orders[0] != orders[1]


def started(forked: Callable[..., Any], folder: Path, *arguments: str) -> Any:
    """Start a long run on two processes in `folder`; return once it has written a checkpoint."""
    endless = ("trainer.max_epochs=5000", "patience=5000", "loss_patience=0")
    start = time.time()
    running = forked("train", "trainer=ddp", *RUN, *endless, *arguments, cwd=folder)
    history, last = folder / "run" / "history.csv", folder / "run" / "checkpoints" / "last.ckpt"

    def has_saved() -> bool:
        """A resumed run first moves last.ckpt here; its own one follows a validation check."""
        if not (history.exists() and last.exists()):
            return False
        checked = history.stat().st_mtime
        return checked > start and last.stat().st_mtime >= checked

    while running.poll() is None and not has_saved():
        time.sleep(0.05)
    return running


@pytest.mark.slow
def test_two_processes_stop_resume_and_end_together(
    demo_store: Path, tmp_path: Path, forked: Callable[..., Any]
) -> None:
    """SIGTERM to the process that the user started; then a resumed run loses its other rank."""
    store = f"data.store={demo_store}"
    running = started(forked, tmp_path, store)
    others = psutil.Process(running.pid).children()
    os.kill(running.pid, signal.SIGTERM)
    printed = running.wait(60)
    assert running.returncode == 143, printed
    assert "resume=" in printed
    assert "Traceback" not in printed
    _, alive = psutil.wait_procs(others, timeout=20)
    assert alive == []
    step = read_checkpoint(tmp_path / "run" / "checkpoints" / "last.ckpt")["global_step"]

    running = started(forked, tmp_path, store, "resume=run")
    others = psutil.Process(running.pid).children()
    others[0].send_signal(signal.SIGKILL)
    printed = running.wait(60)
    assert running.returncode not in (0, None)
    assert "lost another one" in printed
    assert "Traceback" not in printed
    _, alive = psutil.wait_procs(others, timeout=20)
    assert alive == []
    assert read_checkpoint(tmp_path / "run" / "checkpoints" / "last.ckpt")["global_step"] > step
