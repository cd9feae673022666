"""Scored recordings with noise to look at and listen to, and the reports made of them."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from leakdet.acoustics.clip import Clip, MelColumns, make_clip
from leakdet.evaluation.metrics_json import metrics_content, split_metrics
from leakdet.evaluation.scored_recordings import RecordingMedia, ScoredRecordings
from leakdet.reporting.report import ReportInput
from leakdet.sites.states import STATES, Recording, WorklistRow


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


AT_NIGHT = datetime.fromisoformat("2026-11-30T03:00")
FIRST_NIGHT = date(2026, 11, 1)
HEALTH = {"silent logger": ("missing for 4 nights",), "broken": ("unreadable",)}


def worklist_row(number: int, nights: int, placed: bool) -> WorklistRow:
    rng = np.random.default_rng(number)
    state = STATES[number % len(STATES)] if number < 40 else "quiet"
    alarms = {"new": 3, "persistent": nights, "ceased": 4, "watch": 1}.get(state, 0)
    base = rng.uniform(0.05, 0.3)
    loud = range(nights - alarms, nights) if state != "ceased" else range(2, 6)
    trend = [
        None if rng.random() < 0.05 else float(np.clip(base + 0.5 * (night in loud), 0, 1))
        for night in range(nights)
    ]
    heard = state not in ("silent logger", "broken")
    return WorklistRow(
        site=f"S{number:05d}",
        state=state,
        why=f"{alarms} of its last {nights} nights had an alarm.",
        nights=nights,
        leak_nights=min(alarms, nights),
        since=FIRST_NIGHT + timedelta(nights - alarms) if alarms else None,
        score=trend[-1] if heard else None,
        median_score=base if nights > 1 else None,
        level_dbfs=-60 + 12 * base if heard else None,
        median_level_dbfs=-62.0 if nights > 1 else None,
        familiarity=rng.uniform(0.4, 1.4) if heard else None,
        trend=tuple(trend),
        health=HEALTH.get(state, ("clipped",) if number % 17 == 5 else ()),
        chance=0.9 / (1 + number) if heard else None,
        worth=12_000 - 400.0 * number if heard else None,
        leak_share=0.9 / (1 + number / 10),
        leak_share_interval=(0.6 / (1 + number / 10), 0.97 / (1 + number / 20)),
        lat=52.0 + rng.normal(0, 0.02) if placed else None,
        lon=13.0 + rng.normal(0, 0.05) if placed else None,
        columns={"logger": f"L{number}", "pipe": ("cast iron", "PE 110")[number % 2]},
        recordings=(Recording(f"night/S{number:05d}.wav", AT_NIGHT, 0.7, "leak", -55.0),),
        list_name={"new": "news", "persistent": "backlog"}.get(state, "other"),
        ranking_score=trend[-1] if heard else None,
    )


@pytest.fixture(scope="session")
def worklist_rows() -> Callable[..., list[WorklistRow]]:
    """`worklist_rows(sites, nights=30, placed=True)`: sites of all states, most of them quiet."""

    def make(sites: int, nights: int = 30, placed: bool = True) -> list[WorklistRow]:
        return [worklist_row(number, nights, placed) for number in range(sites)]

    return make
