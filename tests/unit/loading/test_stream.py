"""A stream's blocks are shuffled, its workers change the order each epoch, resume and end."""

import gc
import multiprocessing
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from leakdet.config import DataConfig
from leakdet.loading.samples import Batch
from leakdet.loading.stream import StreamLoader

WINDOWS = [3, 1, 7, 2, 5, 1, 4]
LABELS = [0, 1, 1, 0, 1, 1, 1]

Numbers = Callable[[list[Batch]], list[int]]
WorkerBatches = Callable[..., list[Batch]]


def test_every_order_of_a_block_is_equally_likely(
    stores: SimpleNamespace, numbers: Numbers, tmp_path: Path
) -> None:
    samples = stores.samples_of(tmp_path, [4, 3], [0, 1], "window")
    data = DataConfig(batch_size=7)
    # two blocks, one for each recording
    data.buffer_mb = 2 * 4 * samples.split.mel.window_bytes / 1e6
    stream = StreamLoader(samples, data, seed=0)
    found: list[Counter[tuple[int, ...]]] = [Counter(), Counter()]
    for epoch in range(480):
        (batch,) = stream.batches(epoch)
        for recording, orders in enumerate(found):
            places = np.flatnonzero(batch.recording == recording)
            orders[tuple(numbers([batch])[at] for at in places)] += 1
    # each is exceeded with a probability of less than 5e-5
    for orders, count, limit in zip(found, (24, 6), (60, 30), strict=True):
        assert len(orders) == count
        assert sum((times - 480 / count) ** 2 for times in orders.values()) / (480 / count) < limit


@pytest.mark.parametrize("start", ["fork", "forkserver", "spawn"])
def test_persistent_workers_change_the_order_each_epoch_and_cover_everything(
    stores: SimpleNamespace,
    numbers: Numbers,
    tmp_path: Path,
    start: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()  # spawned workers have the real chunks
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, "window")
    data = DataConfig(batch_size=4, workers=2, worker_start=start)
    loader = StreamLoader(samples, data, seed=0)
    orders = []
    for epoch in (0, 1):
        loader.set_epoch(epoch)
        batches, waits = zip(*((batch, loader.wait) for batch in loader), strict=True)
        orders.append(numbers(list(batches)))
        of_processes = [True, True] + [False] * (len(waits) - 2)
        assert [wait and wait.opening for wait in waits] == of_processes
        assert [wait and wait.starting for wait in waits] == [
            opens and epoch == 0 for opens in of_processes
        ]
    assert sorted(orders[0]) == sorted(orders[1]) == [2 * number for number in range(len(samples))]
    assert orders[0] != orders[1]


def test_workers_are_told_to_end(
    stores: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not waited for and terminated, as those of a loader that is collected in a cycle."""
    monkeypatch.setattr(
        "torch.utils.data._utils.worker.MP_STATUS_CHECK_INTERVAL", 1000
    )  # none looks for itself
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, "window")
    data = DataConfig(batch_size=4, workers=2, worker_start="fork")
    stream = StreamLoader(samples, data, seed=0)
    list(stream.batches(0))
    terminated: list[object] = []
    monkeypatch.setattr(multiprocessing.process.BaseProcess, "terminate", terminated.append)
    workers = list(stream._workers._iterator._workers)
    cycle: list[object] = [stream]
    cycle.append(cycle)
    del stream, cycle
    gc.collect()
    assert terminated == []
    assert [worker.exitcode for worker in workers] == [0, 0]


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from leakdet.config import DataConfig
from leakdet.loading.samples import SplitSamples
from leakdet.loading.stream import StreamLoader
from leakdet.storage.opening import open_split

if __name__ == "__main__":
    samples = SplitSamples(open_split(Path(sys.argv[1]), "train"), np.array([0, 1, 1]), "window")
    data = DataConfig(batch_size=2, workers=2, worker_start=sys.argv[2])
    stream = StreamLoader(samples, data, 0)
    next(stream.batches(0))
    print(*(worker.pid for worker in stream._workers._iterator._workers), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("start", ["forkserver", "fork"])
def test_workers_end_when_their_training_is_killed(
    stores: SimpleNamespace, tmp_path: Path, start: str
) -> None:
    stores.samples_of(tmp_path, [3, 1, 2], [0, 1, 1], "window")
    (tmp_path / "train.py").write_text(KILLED, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "train.py", ".", start],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as training:
        assert training.stdout is not None
        pids = [int(word) for word in training.stdout.readline().split()]
    assert len(pids) == 2
    workers = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert alive == []


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("start", [1, 2, 3])
def test_workers_resume_with_the_batches_that_are_left_in_their_order(
    stores: SimpleNamespace,
    numbers: Numbers,
    worker_batches: WorkerBatches,
    tmp_path: Path,
    workers: int,
    start: int,
) -> None:
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, "window")
    stream = StreamLoader(samples, DataConfig(batch_size=4), seed=0)
    whole = worker_batches(stream, workers, 0)
    rest = worker_batches(stream, workers, 0, start=start)
    assert [numbers([batch]) for batch in rest] == [numbers([batch]) for batch in whole[start:]]
