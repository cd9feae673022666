"""Scored recordings with noise to look at and listen to, and the reports made of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from leakdet.acoustics.clip import Clip, make_clip
from leakdet.evaluation.metrics_json import metrics_content, split_metrics
from leakdet.evaluation.scored_recordings import MelColumns, RecordingMedia, ScoredRecordings
from leakdet.reporting.report_input import ReportInput


class NoiseMedia:
    """Picture and sound of noise for every recording."""

    def mel(self, row: int) -> MelColumns:
        level_db = np.random.default_rng(row).normal(-50, 10, (64, 300)).astype(np.float32)
        return MelColumns(level_db, 5.0, np.geomspace(300.0, 8000.0, 64))

    def clip(self, row: int, start_s: float, max_s: float) -> Clip:
        sound = np.random.default_rng(row).normal(0, 0.1, 16000 * 12).astype(np.float32)
        return make_clip(sound, 16000, start_s, max_s)


@pytest.fixture
def media() -> RecordingMedia:
    return NoiseMedia()


@pytest.fixture
def scored() -> Callable[..., ScoredRecordings]:
    """`scored(n=40, gap=0.3, …)`: every second recording a leak, scoring `gap` higher."""

    def make(
        n: int = 40,
        gap: float = 0.3,
        seed: int = 0,
        name: str = "test",
        media: RecordingMedia | None = None,
        leaks: bool | None = None,
    ) -> ScoredRecordings:
        rng = np.random.default_rng(seed)
        is_leak = np.arange(n) % 2 == 0 if leaks is None else np.full(n, leaks)
        score = np.clip(rng.normal(0.3 + gap * is_leak, 0.15), 0, 1)
        return ScoredRecordings(
            name=name,
            recording_id=np.array([f"night/{row:06d}.wav" for row in range(n)]),
            label=np.where(is_leak, "LEAK", "NORMAL"),
            is_leak=is_leak,
            score=score,
            threshold=np.full(n, 0.5),
            window_prob=np.repeat(score, 3).astype(np.float32),
            recording_offsets=3 * np.arange(n + 1),
            groups={"site": np.array([f"site-{row % 4}" for row in range(n)])},
            media=media,
        )

    return make


@pytest.fixture
def report_input() -> Callable[..., ReportInput]:
    """`report_input(*splits, replicates=50, **entries of metrics.json)`."""

    def make(*splits: ScoredRecordings, replicates: int = 50, **more: Any) -> ReportInput:
        tables = {scored.name: split_metrics(scored, replicates) for scored in splits}
        content = metrics_content(tables, None, [], **more)
        return ReportInput("a test", {scored.name: scored for scored in splits}, content)

    return make
