"""Scored recordings without a store or a detector."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from leakdet.detection.decision import DecisionRule
from leakdet.evaluation.scored_recordings import ScoredRecordings


@pytest.fixture
def scored() -> Callable[..., ScoredRecordings]:
    """`scored(n=60, gap=0.25, …)`: every second recording a leak, whose windows score `gap` higher
    on average.
    """

    def make(
        n: int = 60,
        windows: int = 5,
        seed: int = 0,
        gap: float = 0.25,
        threshold: Any = 0.5,
        name: str = "test",
    ) -> ScoredRecordings:
        rng = np.random.default_rng(seed)
        is_leak = np.arange(n) % 2 == 0
        mean = 0.4 + gap * np.repeat(is_leak, windows)
        prob = np.clip(rng.normal(mean, 0.15), 0, 1).astype(np.float32)
        offsets = np.arange(n + 1) * windows
        return ScoredRecordings(
            name=name,
            recording_id=np.array([f"r{row}" for row in range(n)]),
            label=np.where(is_leak, "LEAK", "NORMAL"),
            is_leak=is_leak,
            score=DecisionRule().score(prob, offsets),
            threshold=np.broadcast_to(threshold, n).astype(np.float64),
            window_prob=prob,
            recording_offsets=offsets,
            groups={"site": np.array([f"s{row % 6}" for row in range(n)])},
        )

    return make
