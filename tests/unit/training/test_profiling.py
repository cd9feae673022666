import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest

from leakdet.detection.networks import Network
from leakdet.loading.loaders import TrainLoader
from leakdet.training.profiling import (
    PHASES,
    PROFILE,
    TRACE,
    NvtxRanges,
    PhaseProfiler,
    profile_text,
)


def test_a_trace_holds_the_steps_after_the_first(
    profiled: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leakdet.training.profiling.SKIPPED", 1)
    profiled("profile=trace", "profile_steps=2")
    events = json.loads((tmp_path / "run" / TRACE).read_text())["traceEvents"]
    names = [event.get("name") for event in events if event.get("ph") == "X"]
    assert names.count("forward") == 2
    assert any(name.startswith("aten::") for name in names)


def test_a_training_of_fewer_steps_leaves_no_trace(
    profiled: Callable[..., Any], tmp_path: Path
) -> None:
    profiled("profile=trace", "trainer.limit_train_batches=1")
    assert not (tmp_path / "run" / TRACE).exists()


def test_ranges_are_closed_and_captured_once(
    profiled: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr("leakdet.training.profiling.SKIPPED", 1)
    monkeypatch.setattr("leakdet.training.trainer.make_profiler", lambda *_: NvtxRanges(2))
    monkeypatch.setattr("torch.cuda.profiler.start", lambda: calls.append("start"))
    monkeypatch.setattr("torch.cuda.profiler.stop", lambda: calls.append("stop"))
    monkeypatch.setattr("torch.cuda.nvtx.range_push", lambda name: calls.append("push"))
    monkeypatch.setattr("torch.cuda.nvtx.range_pop", lambda: calls.append("pop"))
    profiled()
    assert (calls[0], calls[-1]) == ("start", "stop")
    assert (calls.count("start"), calls.count("stop")) == (1, 1)
    assert calls.count("push") == calls.count("pop") > 2


EPOCHS, PAUSE_S = 3, 0.05


class Clock(pl.Callback):
    """Reads the clock before the first epoch and after the last; may be slow itself."""

    def __init__(self, pause_s: float = 0) -> None:
        self.pause_s, self.start_s, self.seconds = pause_s, 0.0, 0.0

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self.start_s = time.perf_counter()

    def on_train_batch_end(self, *_: Any) -> None:
        time.sleep(self.pause_s)

    def on_train_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self.seconds = time.perf_counter() - self.start_s


def slowed(function: Callable[..., Any]) -> Callable[..., Any]:
    def slow(*args: Any, **kwargs: Any) -> Any:
        time.sleep(PAUSE_S)
        return function(*args, **kwargs)

    return slow


@pytest.mark.parametrize("planted", ["callbacks", "wait", "validation", "forward"])
def test_phases_add_up_to_the_epochs_and_name_what_is_slow(
    planted: str, profiled: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(PAUSE_S if planted == "callbacks" else 0)
    if planted == "wait":
        batches = TrainLoader.__iter__

        def slow(self: TrainLoader) -> Any:
            for batch in batches(self):
                time.sleep(PAUSE_S)
                yield batch

        monkeypatch.setattr(TrainLoader, "__iter__", slow)
    elif planted == "validation":
        monkeypatch.setattr(Network, "infer", slowed(Network.infer))
    elif planted == "forward":
        monkeypatch.setattr(Network, "forward", slowed(Network.forward))
    profiler = profiled("profile=phases", callback=clock)
    assert len(profiler.epochs) == EPOCHS
    assert sum(sum(epoch.values()) for epoch in profiler.epochs) == pytest.approx(
        clock.seconds, rel=0.03, abs=0.05
    )
    rows = {row["phase"]: row for row in profiler.rows()}
    assert set(rows) == set(PHASES)
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)
    found = rows[planted]
    assert found["median_ms"] >= 1e3 * PAUSE_S
    assert found["p95_ms"] >= found["median_ms"]
    assert found["total_s"] == pytest.approx(sum(e[planted] for e in profiler.epochs[1:]))
    if planted == "callbacks":
        assert profiler._slowest_callbacks()[0].startswith(
            "  slowest callbacks: Clock.on_train_batch_end "
        )
        assert sum(profiler.callbacks.values()) == pytest.approx(found["total_s"])


class Event:
    """A CUDA event on the clock of the host."""

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: "Event") -> float:
        return 1e3 * (end.at - self.at)


def test_on_a_gpu_its_events_are_the_clock(
    profiled: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    monkeypatch.setattr("torch.cuda.Event", Event)
    clock = Clock(PAUSE_S)
    profiler = profiled("profile=phases", callback=clock)
    assert all(isinstance(moment, Event) for moment, *_ in profiler._moments)
    total = sum(sum(epoch.values()) for epoch in profiler.epochs)
    assert total == pytest.approx(clock.seconds, rel=0.03, abs=0.05)


def test_a_profile_changes_no_number(
    fitted: Callable[..., pl.Trainer], profiled: Callable[..., Any], tmp_path: Path
) -> None:
    plain = fitted(tmp_path / "plain", f"trainer.max_epochs={EPOCHS}", "patience=9")
    profiled("profile=phases")
    one, other = (tmp_path / name / "history.csv" for name in ("plain", "run"))
    columns = [line.split(",")[:8] for line in one.read_text().splitlines()]
    assert columns == [line.split(",")[:8] for line in other.read_text().splitlines()]
    assert isinstance(plain.profiler, pl.profilers.PassThroughProfiler)  # type: ignore[attr-defined]


def test_an_action_that_an_exception_ends_is_closed_with_what_surrounds_it(tmp_path: Path) -> None:
    profiler = PhaseProfiler(tmp_path / PROFILE)
    for action in ("run_training_epoch", "run_training_batch", "[Strategy]S.training_step"):
        profiler.start(action)
    profiler.stop("run_training_epoch")
    profiler.describe()
    assert {phase for phase, seconds in profiler.epochs[0].items() if seconds} == {"loop", "loss"}


def test_callbacks_that_take_next_to_nothing_are_not_named(tmp_path: Path) -> None:
    profiler = PhaseProfiler(tmp_path / PROFILE)
    profiler.epochs = [{"forward": 99.0, "callbacks": 1.0}]
    profiler.callbacks.update({"One.on_train_batch_end": 0.9})
    assert profiler._slowest_callbacks() == []


def test_phases_are_listed_from_the_longest() -> None:
    times = {"median_ms": 1.25, "p95_ms": 3.5, "total_s": 2.0}
    rows = [{"phase": "wait", "share": 0.1, **times}, {"phase": "forward", "share": 0.9, **times}]
    lines = profile_text(rows).splitlines()
    assert lines[2].split() == ["forward", "1.25", "3.50", "2.00", "90.0%"]
    assert lines[3].split()[0] == "wait"
