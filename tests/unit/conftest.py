"""Small stores in which every sample holds its own number."""

import csv
import hashlib
import json
import shutil
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from tests.conftest import Planted, store_writer

from leakdet.config import LearnConfig, SignalConfig, TrainConfig
from leakdet.core.files import USER_BLOCK_BYTES
from leakdet.learning.training import JOINT, Material, train_on
from leakdet.loading.samples import SplitSamples
from leakdet.storage.ailh import FILES
from leakdet.storage.hdf5 import seal_h5
from leakdet.storage.model_file import save_model
from leakdet.storage.opening import open_labelled, open_split
from leakdet.storage.store import StoreSplit, offsets_of
from leakdet.storage.views import pooled

SIGNAL = SignalConfig(
    sample_rate_hz=1000,
    window_samples=32,
    window_hop_samples=16,
    segment_samples=16,
    segment_hop_samples=16,
    n_mels=2,
    fmin_hz=0.0,
    fmax_hz=500.0,
)
S, M = SIGNAL.segments, SIGNAL.n_mels


def write_split(
    path: Path,
    windows: list[int],
    labels: list[int],
    first_window: int = 0,
    prefix: str | None = None,
    **extra: Any,
) -> None:
    """One HDF5 file of recordings of so many `windows`; segment s of window w holds w·S + s."""
    count = sum(windows)
    numbers = (first_window * S + np.arange(count * S)).reshape(count, S, 1, 1)
    mel = np.broadcast_to(numbers, (count, S, M, 1)).astype(np.float16)
    offsets = offsets_of(windows)
    names = [f"{prefix or path.stem}-{row}" for row in range(len(windows))]
    crc = [zlib.crc32(mel[a:b].tobytes()) for a, b in pairwise(offsets)]
    text = h5py.string_dtype()
    with h5py.File(path, "w", userblock_size=USER_BLOCK_BYTES) as file:
        file.attrs.update(
            {
                "schema_version": 1,
                "signal": json.dumps(asdict(SIGNAL)),
                "signal_hash": SIGNAL.hash,
                "label_names": json.dumps(["LEAK", "NORMAL"]),
                "leak_labels": '["LEAK"]',
                "group_by": json.dumps(sorted(extra.get("groups", {}))),
            }
        )
        file.create_dataset("mel", data=mel, **extra.get("mel", {}))
        file["recording_offsets"] = offsets
        file["label_id"] = np.array(labels, np.int16)
        file["weight"] = np.linspace(0.5, 1.5, len(windows), dtype=np.float32)
        file["mel_crc32"] = np.array(crc, np.uint32)
        file.create_dataset("recording_id", data=names, dtype=text)
        file.create_dataset("content_sha256", data=extra.get("content", names), dtype=text)
        for column, values in extra.get("groups", {}).items():
            file.create_dataset(f"group/{column}", data=values, dtype=text)
    seal_h5(path)


def samples_of(
    folder: Path, windows: list[int], labels: list[int], unit: str, shards: int = 1
) -> SplitSamples:
    """The training split of a new store in `folder`, in `shards` files."""
    cuts = np.linspace(0, len(windows), shards + 1).astype(int)
    for number, (a, b) in enumerate(pairwise(cuts)):
        name = "train.h5" if shards == 1 else f"train-{number:05d}-of-{shards:05d}.h5"
        write_split(folder / name, windows[a:b], labels[a:b], sum(windows[:a]))
    return SplitSamples(open_split(folder, "train"), np.array(labels, np.int64), unit)


def ailh_splits(folder: Path, change: dict[str, dict[int, Any]]) -> list[StoreSplit]:
    """The splits of an AILH store, twelve recordings of four windows each, with these rows changed."""
    for number, (name, file_name) in enumerate(FILES.items()):
        mel = np.random.default_rng(number).normal(-60, 9, (12, 4, 2, 8, 1)).astype(np.float16)
        for row, values in change.get(name, {}).items():
            mel[row] = values
        with h5py.File(folder / file_name, "w") as file:
            file["segments_mel"], file["labels"] = mel, (np.arange(12) % 2).astype(np.int16)
            file.attrs["labels_json"] = json.dumps(["LEAK", "NOLEAK"])
    return [open_split(folder, name) for name in FILES]


@pytest.fixture(scope="session")
def stores() -> SimpleNamespace:
    """The helpers of this file, for tests that cannot import it."""
    return SimpleNamespace(
        write_split=write_split, samples_of=samples_of, ailh_splits=ailh_splits, signal=SIGNAL
    )


QUIET = (
    "experiment=smoke",
    "logger=none",
    "trainer.enable_progress_bar=false",
    "data.batch_size=16",
)


@pytest.fixture
def configured(compose: Callable[..., Any], demo_store: Path) -> Callable[..., TrainConfig]:
    """`configured("seed=1", …)`: the smoke settings on the demo store, with these overrides."""

    def make(*overrides: str) -> TrainConfig:
        settings: TrainConfig = compose("train", *QUIET, f"data.store={demo_store}", *overrides)
        return settings

    return make


FAST = ("learn.steps=40", "stop.name=fixed", "stop.passes=4", "callbacks=none")


@dataclass
class Learner:
    """An old model of sensors A and B with its store, and what makes new recordings."""

    model: Path
    store: Path
    compose: Callable[..., Any]
    write_store: Callable[..., Path]

    def config(self, new: Path | None, *words: str) -> LearnConfig:
        given = [] if new is None else [f"learn.new={new}"]
        store = f"data.store={self.store}"
        found = self.compose("learn", f"model={self.model}", store, *given, *FAST, *words)
        assert isinstance(found, LearnConfig)
        return found

    def new(self, count: int = 8, sensor: str = "C", first: int = 100) -> Path:
        """A store of new recordings, half with a leak, which sensor C hears in other bands."""
        numbers = range(first, first + count)
        return self.write_store(train=[self.recording(number, sensor) for number in numbers])

    @staticmethod
    def recording(number: int, sensor: str, label: str | None = None) -> Planted:
        """Recording `number`: even ones have a leak unless a label is given."""
        label = label or ("leak", "other")[number % 2]
        bump = 16.0 * (label == "leak") * (1 if sensor in "AB" else -1)
        return Planted(
            label,
            number,
            bump_db=bump,
            groups={"sensor": sensor, "site": f"{sensor}{number // 4}"},
            name=f"{number}.wav",
            content=hashlib.sha256(str(number).encode()).hexdigest(),
            rate_hz=4000 if sensor in "AB" else 8000,
        )


@pytest.fixture(scope="session")
def old_learner(compose: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Learner:
    """A model of recordings 0 to 11, chosen with 12 to 19; 20 to 23 test it."""
    folder = tmp_path_factory.mktemp("learner")
    write = store_writer(folder)
    recordings = [Learner.recording(number, "AB"[number % 4 // 2]) for number in range(24)]
    store = write(train=recordings[:12], val=recordings[12:20], test=recordings[20:])
    made = Learner(folder / "old.safetensors", store, compose, write)
    train, val = (open_labelled(store, name) for name in ("train", "val"))
    material = Material(pooled([train]).take(np.arange(4), "train"), store, JOINT, train, val)
    old = train_on(made.config(None), material, np.arange(4), folder / "old")
    save_model(made.model, old.network.state_dict(), old.card, old.met)
    return made


@pytest.fixture
def learner(old_learner: Learner, write_store: Callable[..., Path], tmp_path: Path) -> Learner:
    model = tmp_path / "old.safetensors"
    shutil.copyfile(old_learner.model, model)
    return replace(old_learner, model=model, write_store=write_store)


@pytest.fixture
def night_rows(tmp_path: Path) -> Callable[..., Path]:
    """Rows of predict: sites A to E in eight nights, of which B has an alarm in the last three."""

    def write(name: str = "rows.csv", model: str = "abc", days_ago: int = 0, **more: str) -> Path:
        path, last = tmp_path / name, datetime.fromisoformat("2026-11-28T03:00")
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            told = ("decision", "leak_prob", "threshold", "quiet_level_dbfs", "model", "error")
            writer.writerow(["path", "site", "recorded_at", *more, *told])
            for night in range(8):
                at = last - timedelta(days=7 - night + days_ago)
                for site in "ABCDE":
                    leak = site == "B" and night > 4
                    verdict = ["leak", 0.9, 0.5] if leak else ["no_leak", 0.1, 0.5]
                    where = [f"{site}{night}.wav", site, at.isoformat(), *more.values()]
                    writer.writerow([*where, *verdict, -60.0 + 9 * leak, model, ""])
        return path

    return write
