"""Files that the examples in docstrings and the tests of the Python API use."""

import contextlib
import hashlib
import inspect
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ForwardRef, get_args

import jaxtyping
import psutil
import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # one core a worker; read by torch, so before its import
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Rewritten tests and checked modules are compiled once, not by each worker in each run.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# `nohup make test &` in a script has these ignored, and so would every command that a test stops.
for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
    if signal.getsignal(_number) == signal.SIG_IGN:
        _plain = signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL
        signal.signal(_number, _plain)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    # This process goes on without its terminal; a command that it starts has the default again.
    signal.signal(signal.SIGHUP, lambda *_: None)


def _has_shapes(annotation: Any) -> bool:
    """Whether an annotation has shapes, or is a name that is resolved later and may have."""
    if isinstance(annotation, str | ForwardRef):
        return True
    if isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return any(map(_has_shapes, get_args(annotation)))


_jaxtyped = jaxtyping.jaxtyped


def _checked(*, typechecker: Callable[..., Any]) -> Callable[[Any], Any]:
    """`jaxtyped` where a signature has shapes; else the type checker alone, which is faster."""

    def decorate(what: Any) -> Any:
        annotations = getattr(what, "__annotations__", {})
        shapes = any(map(_has_shapes, annotations.values()))
        if shapes or isinstance(what, type) or inspect.isgeneratorfunction(what):
            return _jaxtyped(what, typechecker=typechecker)
        return typechecker(what)

    return decorate


jaxtyping.jaxtyped = _checked  # which --jaxtyping-packages calls by this name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, so that no worker is left with one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """End the processes of a test that fails or takes too long; others end their own."""
    start_s = time.clock_gettime(time.CLOCK_BOOTTIME)  # as the kernel counts for processes
    try:
        return (yield)
    except BaseException:
        for child in psutil.Process().children():
            if child.create_time() - psutil.boot_time() >= start_s - 1.0:
                _kill_tree(child)
        raise


def _kill_tree(child: psutil.Process) -> None:
    try:
        tree = [child, *child.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for process in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


@dataclass(frozen=True)
class ExampleFiles:
    """`model.safetensors` (untrained), `recording.wav` (2 s of noise) and `store` in one folder."""

    folder: Path

    @property
    def model(self) -> Path:
        return self.folder / "model.safetensors"

    @property
    def recording(self) -> Path:
        return self.folder / "recording.wav"

    @property
    def store(self) -> Path:
        return self.folder / "store"


@pytest.fixture(scope="session")
def example_files(tmp_path_factory: pytest.TempPathFactory) -> ExampleFiles:
    import numpy as np
    import soundfile

    files = ExampleFiles(tmp_path_factory.mktemp("examples"))
    noise = 0.1 * np.random.default_rng(0).standard_normal(8000)
    soundfile.write(files.recording, noise, 4000)
    _write_model(files.model)
    files.store.mkdir()
    for name, count in {"train": 8, "val": 4, "test": 4}.items():
        _write_split(files.store, name, count)
    return files


@pytest.fixture(autouse=True)
def _example_folder(request: pytest.FixtureRequest) -> None:
    """Examples in docstrings run in the folder of the example files."""
    if isinstance(request.node, pytest.DoctestItem):
        files = request.getfixturevalue("example_files")
        request.getfixturevalue("monkeypatch").chdir(files.folder)


def _signal():
    from leakdet.config import SignalConfig

    return SignalConfig(
        sample_rate_hz=4000,
        window_samples=1000,
        window_hop_samples=500,
        segment_samples=200,
        segment_hop_samples=200,
        n_mels=12,
        fmin_hz=100.0,
        fmax_hz=2000.0,
    )


def _write_model(path: Path) -> None:
    import torch

    from leakdet.config import NetworkConfig
    from leakdet.detection.decision import DecisionRule
    from leakdet.detection.labels import LabelMap
    from leakdet.detection.networks import make_network
    from leakdet.storage.model_file import make_card, save_model

    torch.manual_seed(0)
    signal, network = _signal(), NetworkConfig("linear")
    card = make_card(
        signal=signal,
        labels=LabelMap(
            "binary", ("NO_LEAK", "LEAK"), (1,), ("leak",), {"leak": "leak", "other": "other"}
        ),
        network=network,
        mel_shape=signal.mel_shape,
        unit="window",
        blend=1.0,
        rule=DecisionRule(),
        training={"epoch": 0, "settings": {}},
    )
    save_model(path, make_network(network, signal.mel_shape, 2).state_dict(), card)


def _write_split(store: Path, name: str, count: int) -> None:
    """Recordings of 4 windows, half of them leaks, whose upper bands are 10 dB louder."""
    import numpy as np

    from leakdet.storage.writer import RecordingRow, SplitWriter

    rng = np.random.default_rng(count)
    writer = SplitWriter(store, name, signal := _signal())
    for number in range(count):
        leak = number % 2 == 0
        mel = rng.normal(-50.0, 2.0, (4, *signal.mel_shape))
        mel[:, :, signal.n_mels // 2 :] += 10.0 * leak
        row = RecordingRow(
            recording_id=f"{name}/{number}.wav",
            path=f"{name}/{number}.wav",
            label="leak" if leak else "other",
            groups={"pipe": f"{name}-{number // 2}"},
            weight=1.0,
            content_sha256=hashlib.sha256(f"{name}{number}".encode()).hexdigest(),
            duration_s=0.625,
            source_rate_hz=4000,
            rms_dbfs=-30.0,
            dc_offset=0.0,
            clipped_fraction=0.0,
            flags=(),
            windows=4,
            mel_crc32=0,
        )
        spool = store / "spool"
        spool.write_bytes(mel.astype(np.float16).tobytes())
        with spool.open("r+b") as file:
            writer.add(row, file, None)
        spool.unlink()
    writer.write(store / f"{name}.h5", ["leak", "other"], ["leak"])
