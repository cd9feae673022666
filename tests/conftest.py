"""Shared fixtures: sound files, composed settings, a small demo store and a model trained on it."""

import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, TextIO

# One thread per xdist worker. torch reads this when it is imported.
import hypothesis
import numpy as np
import pytest
import soundfile
import torch
from jsonschema import Draft202012Validator
from tests.remote_stores import flaky, s3, s3_server  # noqa: F401  fixtures

from leakdet.config import SignalConfig
from leakdet.core.messages import DETAIL, LOG
from leakdet.storage.writer import RecordingRow, SplitWriter

REPOSITORY = Path(__file__).parents[1]

# On a busy machine a correct test may take long.
hypothesis.settings.register_profile("leakdet", deadline=None)
hypothesis.settings.load_profile("leakdet")

Compose = Callable[..., Any]
WriteSound = Callable[..., Path]


def pytest_collection_finish() -> None:
    """Leave what all imports made out of each later search for garbage, and shared after a fork."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _seed_torch() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _test_split_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no recordings be few, so that a training is one training; crossval.folds=2 makes three."""
    monkeypatch.setattr("leakdet.config.crossval.FEW_RECORDINGS", 0)
    monkeypatch.setattr("leakdet.config.crossval.FEW_OF_A_CLASS", 0)


@pytest.fixture
def messages(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What the library logs for people; commands print it."""
    LOG.disabled = False  # Hydra disables existing loggers when a door opens
    caplog.set_level(DETAIL, LOG.name)
    return caplog


@pytest.fixture
def write_sound(tmp_path: Path) -> WriteSound:
    """Write `samples`, by default noise, as a sound file under `tmp_path` and return its path.

    Further keywords go to `soundfile.write`.
    """

    def write(
        name: str,
        seconds: float = 1.0,
        rate_hz: int = 16000,
        seed: int = 0,
        samples: np.ndarray | None = None,
        **options: Any,
    ) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if samples is None:
            samples = noise(seconds, rate_hz, seed)
        soundfile.write(path, samples, rate_hz, **options)
        return path

    return write


def says(texts: Iterable[str], *facts: str) -> bool:
    """Whether there are as many texts as patterns, and each has what its pattern looks for."""
    found = list(texts)
    return len(found) == len(facts) and all(map(re.search, facts, found))


PROGRESS = re.compile(r"\s+\S+/\S+ |\s+epoch |.*\d+/\d+ \w+, .* left|\s+(trial|\d+)  ")


def lines_told(printed: str) -> list[str]:
    """The lines of a screen beside progress, warnings and the exit code."""
    lines = [line for line in printed.splitlines() if line and not PROGRESS.match(line)]
    return [line for line in lines if not line.startswith(("warning", "(exit"))]


def noise(seconds: float, rate_hz: int = 16000, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (0.1 * rng.standard_normal(int(seconds * rate_hz))).astype(np.float32)


@pytest.fixture(scope="session")
def compose() -> Compose:
    """Compose the settings of a command line, such as `compose("train", "seed=1")`."""
    return lambda door, *overrides: composed_quickly(door, overrides)


def composed_quickly(door: str, overrides: Sequence[str]) -> Any:
    """As `leakdet.compose`, but Hydra composes each choice of groups and files once.

    Settings, which are no groups, are set on a copy, as Hydra sets them.
    """
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra.core.override_parser.overrides_parser import OverridesParser

    from leakdet.cli.compose import as_hydra_reads, compose, typed
    from leakdet.cli.settings import DOORS, known_settings

    groups = known_settings(door).groups
    chosen = [word for word in overrides if word.split("=")[0] in groups or "hydra" in word]
    try:
        config = deepcopy(_chosen(door, tuple(chosen)))
        rest = as_hydra_reads(door, [word for word in overrides if word not in chosen])
        words = OverridesParser.create().parse_overrides(rest)
        ConfigLoaderImpl._apply_overrides_to_config(words, config)
        return typed(config, DOORS[door].schema)
    except Exception:
        return compose(door, overrides)  # which raises what a user sees


@cache
def _chosen(door: str, words: Sequence[str]) -> Any:
    from leakdet.cli.compose import as_hydra_reads, composed

    return composed(door, as_hydra_reads(door, words))


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder `name` of this session, made by the first of its processes that needs it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.with_suffix(".made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            folder.with_suffix(".made").touch()
    return folder


SMOKE = ("experiment=smoke", "logger=csv", "trainer.enable_progress_bar=false")


@pytest.fixture(scope="session")
def demo_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "demo-cache", lambda _: None)


@pytest.fixture(scope="session")
def demo_store(demo_cache: Path, compose: Compose) -> Path:
    """A store of 60 recordings of 2 s at 10 sites, with their audio in its folder `audio`."""
    from leakdet.building.cached_stores import demo_store as build_demo

    config = compose("train", *SMOKE)
    return build_demo(config.demo, config.signal, demo_cache)  # which locks it


@pytest.fixture(scope="session", autouse=True)
def _without_figures() -> Iterator[None]:
    """Pages with the words of figures alone: drawing them takes half of a small run.

    The fixture `figures` draws them, for the tests that are about them.
    """
    from matplotlib.text import Text
    from PIL import Image

    from leakdet.reporting import report, study_figures, training_figures

    def blank(figures: Mapping[str, Any], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in figures:
            Image.new("RGB", (1, 1)).save(folder / f"{name}.png")

    def words(figure: Any, description: str) -> str:
        texts = [text.get_text() for text in figure.findobj(Text)]
        return f"<svg>{escape(' '.join([description, *texts]), quote=False)}</svg>"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "svg", words)
        patch.setattr(study_figures, "svg", words)
        patch.setattr(report, "write_pngs", blank)
        patch.setattr(training_figures, "write_pngs", blank)
        yield


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are drawn, as users see them."""
    from leakdet.reporting import figures, report, study_figures, training_figures

    monkeypatch.setattr(report, "svg", figures.svg)
    monkeypatch.setattr(study_figures, "svg", figures.svg)
    monkeypatch.setattr(report, "write_pngs", figures.write_pngs)
    monkeypatch.setattr(training_figures, "write_pngs", figures.write_pngs)


@dataclass(frozen=True)
class Trained:
    """A finished training: its folder, its store and its standard output."""

    folder: Path
    store: Path
    printed: str

    @property
    def model(self) -> Path:
        return self.folder / "model.safetensors"


@pytest.fixture(scope="session")
def trained(demo_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """`experiment=smoke`, started as a user starts it, from an empty folder."""

    def train(folder: Path) -> None:
        arguments = (*SMOKE, "log=full", f"data.store={demo_store}", "hydra.run.dir=run")
        process = run_forked("train", *arguments, cwd=folder)
        assert process.returncode == 0, process.stderr
        folder.with_suffix(".txt").write_text(process.stdout, encoding="utf-8")

    folder = made_once(tmp_path_factory, "trained", train)
    printed = folder.with_suffix(".txt").read_text(encoding="utf-8")
    return Trained(folder / "run", demo_store, printed)


@dataclass(frozen=True)
class DoorResult:
    """Exit code and output of a door."""

    returncode: int
    stdout: str
    stderr: str


def run_door(
    verb: str,
    *arguments: str | Path,
    cwd: Path,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> DoorResult:
    """Run `python -m leakdet.VERB ARGUMENTS` in `cwd`, within this process.

    A process of its own would take ten seconds to import torch.
    """
    from hydra.core.global_hydra import GlobalHydra

    out, err = out or io.StringIO(), err or io.StringIO()
    module = importlib.import_module(f"leakdet.{verb}")
    argv, sys.argv = sys.argv, [f"leakdet {verb}", *map(str, arguments)]
    try:
        with (
            contextlib.chdir(cwd),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = module.main()
    except SystemExit as stop:
        code = stop.code
    finally:
        sys.argv = argv
        GlobalHydra.instance().clear()
    printed = [
        stream.getvalue() if isinstance(stream, io.StringIO) else "" for stream in (out, err)
    ]
    return DoorResult(int(code or 0), *printed)


class ForkedDoor:
    """`python -m leakdet.VERB ARGUMENTS` in `cwd`, in a child of this process.

    It leads a session of its own and imports nothing anew, which takes a new process four seconds.
    """

    def __init__(self, verb: str, *arguments: str | Path, cwd: Path) -> None:
        self.output, name = tempfile.mkstemp()
        Path(name).unlink()
        self.returncode: int | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside xdist's thread
            self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                code = self._run(verb, *arguments, cwd=cwd)
            finally:
                os._exit(code)

    def _run(self, verb: str, *arguments: str | Path, cwd: Path) -> int:
        os.setsid()
        for stream in (1, 2):
            os.dup2(self.output, stream)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # further ranks are started by the module that was
        sys.modules["__main__"] = importlib.import_module(f"leakdet.{verb}")
        sys.path.insert(0, str(cwd))  # as `python -m` does
        os.environ |= {"PYTHONPATH": str(REPOSITORY / "src"), "COLUMNS": "200"}
        warnings.resetwarnings()  # pytest makes them errors
        warnings.simplefilter("ignore", DeprecationWarning)  # as Python does
        torch.set_num_threads(1)  # threads of the parent's are not there after a fork
        screen = os.fdopen(1, "w", buffering=1)
        return run_door(verb, *arguments, cwd=cwd, out=screen, err=screen).returncode

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout_s: float = 240.0) -> str:
        """What it printed, once it has ended."""
        until = time.monotonic() + timeout_s
        while self.poll() is None:
            assert time.monotonic() < until, f"it did not end within {timeout_s} s"
            time.sleep(0.02)
        os.lseek(self.output, 0, os.SEEK_SET)
        with os.fdopen(self.output) as output:
            return output.read()


def run_forked(verb: str, *arguments: str | Path, cwd: Path) -> DoorResult:
    """Run `python -m leakdet.VERB ARGUMENTS` in `cwd` as a process of its own."""
    running = ForkedDoor(verb, *arguments, cwd=cwd)
    printed = running.wait()
    return DoorResult(int(running.returncode or 0), printed, printed)


@pytest.fixture(scope="session")
def door() -> Callable[..., DoorResult]:
    return run_door


@pytest.fixture(scope="session")
def forked() -> type[ForkedDoor]:
    return ForkedDoor


@pytest.fixture(scope="session")
def process() -> Callable[..., DoorResult]:
    return run_forked


def healthy_check() -> Any:
    """The result of a validation check at which nothing is wrong: 40 recordings of one window."""
    from leakdet.training.validation import SampleSummary, ValidationResult

    return ValidationResult(
        epoch=0,
        step=1,
        f1=0.9,
        auroc=0.95,
        threshold=0.5,
        confusion=(18, 2, 2, 18),
        train_loss=(0.6, 0.5, 0.2),
        val_loss=(0.7, 0.5, 0.2),
        leaks_drawn=0.5,
        scores=np.linspace(0.1, 0.4, 40),
        is_leak=np.arange(40) >= 20,
        samples=SampleSummary(100, 0.5, 0.3, 0.5, 0.9, (10,) * 10),
        window_prob=np.linspace(0.1, 0.4, 40),
        windows_per_recording=np.ones(40, np.int64),
    )


PLANTED_SIGNAL = SignalConfig(
    sample_rate_hz=4000,
    window_samples=1000,
    window_hop_samples=500,
    segment_samples=200,
    segment_hop_samples=200,
    n_mels=12,
    fmin_hz=100.0,
    fmax_hz=2000.0,
)


@dataclass
class Planted:
    """A recording for `write_store`: noise, `level_db` louder, its upper bands by `bump_db` too."""

    label: str
    seed: int
    bump_db: float = 0.0
    level_db: float = 0.0
    windows: int = 4
    groups: dict[str, str] = field(default_factory=dict)
    name: str | None = None
    content: str | None = None
    live: np.ndarray | None = None  # of each window
    weight: float = 1.0
    rate_hz: int = 4000  # of its file

    def mel(self) -> np.ndarray:
        rng = np.random.default_rng(self.seed)
        colour = rng.normal(0.0, 3.0, PLANTED_SIGNAL.n_mels)
        mel = (
            -50.0
            + colour[:, None]
            + rng.normal(0.0, 2.0, (self.windows, *PLANTED_SIGNAL.mel_shape))
        )
        mel[:, :, PLANTED_SIGNAL.n_mels // 2 :] += self.bump_db
        return (mel + self.level_db).astype(np.float16)

    def row(self, number: int) -> RecordingRow:
        rng = np.random.default_rng([self.seed, 1])
        return RecordingRow(
            recording_id=self.name or f"{number:04}.wav",
            path=f"/nowhere/{number:04}.wav",
            label=self.label,
            groups=self.groups,
            weight=self.weight,
            content_sha256=self.content or f"{self.seed:064}",
            duration_s=1.0 + rng.uniform(0.0, 0.1),
            source_rate_hz=self.rate_hz,
            rms_dbfs=-30.0 + rng.normal(0.0, 3.0) + self.level_db,
            dc_offset=rng.normal(0.0, 0.01),
            clipped_fraction=0.0,
            flags=(),
            windows=self.windows,
            mel_crc32=0,
            live=self.live,
        )


@pytest.fixture
def write_store(tmp_path: Path) -> Callable[..., Path]:
    """Write a store, such as `write_store(train=[Planted(…)], val=[…])`, and return its folder."""
    return store_writer(tmp_path)


def store_writer(parent: Path) -> Callable[..., Path]:
    """`write_store` for stores in `parent`."""

    def write(**splits: list[Planted]) -> Path:
        folder = parent / f"store{len(list(parent.iterdir()))}"
        folder.mkdir()
        number = 0
        for split, recordings in splits.items():
            writer = SplitWriter(folder, split, PLANTED_SIGNAL)
            for recording in recordings:
                spool = folder / "spool"
                spool.write_bytes(recording.mel().tobytes())
                with spool.open("r+b") as mel:
                    writer.add(recording.row(number), mel, None)
                spool.unlink()
                number += 1
            writer.write(folder / f"{split}.h5", ["leak", "other"], ["leak"])
        return folder

    return write


@pytest.fixture
def planted() -> type[Planted]:
    return Planted


@pytest.fixture
def site_store(write_store: Callable[..., Path]) -> Path:
    """Three sites with eight recordings each; half are leaks, 8 dB louder in the upper bands."""
    recordings = [
        Planted(
            "leak" if number % 2 else "other",
            seed=number,
            bump_db=8.0 * (number % 2),
            groups={"site": f"s{number // 8}", "sensor": "AB"[number % 4 // 2]},
        )
        for number in range(24)
    ]
    return write_store(train=recordings[:12], val=recordings[12:20], test=recordings[20:])


@pytest.fixture(scope="session")
def thirty_recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of ten recordings in LEAK and twenty in NORMAL, of 1 to 6.4 s."""
    folder = tmp_path_factory.mktemp("thirty")
    rng = np.random.default_rng(0)
    for number in range(30):
        path = folder / ("LEAK" if number % 3 == 0 else "NORMAL") / f"{number:02d}.wav"
        path.parent.mkdir(exist_ok=True)
        soundfile.write(path, 0.1 * rng.standard_normal(16000 + 3000 * number), 16000)
    return folder


@pytest.fixture(scope="session")
def schema_errors() -> Callable[[object], list[str]]:
    """List where the content of a metrics.json departs from docs/metrics.schema.json."""
    schema = json.loads((REPOSITORY / "docs" / "metrics.schema.json").read_text(encoding="utf-8"))
    schema["additionalProperties"] = False  # every key must be described
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    return lambda content: [error.message for error in validator.iter_errors(content)]
