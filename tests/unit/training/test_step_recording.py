"""A trace of some steps after the first, and ranges that are closed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakdet.training.step_recording import TRACE, NvtxRanges


def test_a_trace_holds_the_steps_after_the_first(
    profiled: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leakdet.training.step_recording.SKIPPED", 1)
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
    monkeypatch.setattr("leakdet.training.step_recording.SKIPPED", 1)
    monkeypatch.setattr("leakdet.training.trainer.make_profiler", lambda *_: NvtxRanges(2))
    monkeypatch.setattr("torch.cuda.profiler.start", lambda: calls.append("start"))
    monkeypatch.setattr("torch.cuda.profiler.stop", lambda: calls.append("stop"))
    monkeypatch.setattr("torch.cuda.nvtx.range_push", lambda name: calls.append("push"))
    monkeypatch.setattr("torch.cuda.nvtx.range_pop", lambda: calls.append("pop"))
    profiled()
    assert (calls[0], calls[-1]) == ("start", "stop")
    assert (calls.count("start"), calls.count("stop")) == (1, 1)
    assert calls.count("push") == calls.count("pop") > 2
