"""Nights of a made-up network with known leaks, as rows of predict.

Scores have the spread that a model of the demo has on places that it never met; levels and what
else happens are chosen by hand. `hardness` moves the log-odds of leaks and other sites together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from leakdet.detection.calibration import sigmoid

FIRST = datetime.fromisoformat("2026-05-01T02:00")
# log-odds of recordings: mean, sd between sites, sd within a site (demo, experiment=field)
OTHER, LEAK = (-2.3, 1.0, 0.7), (2.2, 1.3, 1.1)
STEADY = 0.4  # share of the variance within a site that whole nights share


@dataclass(frozen=True)
class Story:
    """How many sites and nights there are, and what happens."""

    sites: int = 500
    nights: int = 30
    recordings: int = 3  # a night
    bursts: int = 4  # leaks that begin at once on some night
    growing: int = 2  # leaks that grow over ten nights
    old: int = 2  # leaks that were there before the first night
    pumps: int = 25  # other sounds that are always there
    rain: int = 2  # nights that raise all sites
    passing: float = 0.03  # share of recordings with a passing loud sound
    dying: int = 10  # loggers that fall silent
    hardness: float = 1.0  # 1: as the demo; 2: the log-odds lie half as far apart


@dataclass(frozen=True)
class Network:
    """Scores and quiet levels `[S, N, R]` (NaN: not heard), and since when each site leaks."""

    scores: np.ndarray
    levels: np.ndarray
    leak_since: np.ndarray  # [S] night; -1: no leak

    @property
    def leaks(self) -> np.ndarray:
        """Sites with a leak."""
        return np.flatnonzero(self.leak_since >= 0)


def make_network(story: Story, seed: int) -> Network:
    """Draw one network."""
    rng = np.random.default_rng(seed)
    s, n, r = story.sites, story.nights, story.recordings
    kinds = rng.permutation(s)
    counts = [story.bursts, story.growing, story.old, story.pumps, story.dying]
    bursts, growing, old, pumps, dying = np.split(kinds, np.cumsum(counts))[:5]
    since = np.full(s, -1)
    since[np.r_[bursts, growing]] = rng.integers(n // 4, n - 4, len(bursts) + len(growing))
    since[old] = 0
    night = np.arange(n)
    grown = np.zeros((s, n))  # how much of its leak, or other steady sound, a site has
    grown[bursts] = night >= since[bursts, None]
    grown[growing] = np.clip((night - since[growing, None] + 1) / 10.0, 0.0, 1.0)
    grown[old] = grown[pumps] = 1.0
    base, within = _log_odds(rng, OTHER, s, (n, r), story.hardness)
    leak, leak_within = _log_odds(rng, LEAK, s, (n, r), story.hardness)
    part = grown[:, :, None]
    log_odds = (1.0 - part) * (base + within) + part * (leak + leak_within)
    loud = rng.uniform(4.0, 16.0, s)
    levels = rng.normal(-72.0, 6.0, s)[:, None, None] + rng.normal(0.0, 1.5, (s, n, r))
    levels = levels + part * loud[:, None, None]
    wet = rng.choice(n, story.rain, replace=False)
    log_odds[:, wet] += rng.normal(1.5, 0.7, (s, len(wet), 1))
    levels[:, wet] += rng.normal(6.0, 2.0, (s, len(wet), 1))
    passing = rng.random((s, n, r)) < story.passing
    log_odds[passing] += 3.0
    levels[passing] += rng.uniform(5.0, 20.0, int(passing.sum()))
    silent = night >= rng.integers(n // 3, n, len(dying))[:, None]
    levels[dying] = np.where(silent[:, :, None], np.nan, levels[dying])
    return Network(np.where(np.isnan(levels), np.nan, sigmoid(log_odds)), levels, since)


def _log_odds(
    rng: np.random.Generator,
    of: tuple[float, float, float],
    sites: int,
    shape: tuple[int, int],
    hardness: float,
) -> tuple[np.ndarray, np.ndarray]:
    mean, between, within = of
    site = rng.normal(mean / hardness, between, (sites, 1, 1))
    nightly = rng.normal(0.0, within * np.sqrt(STEADY), (sites, shape[0], 1))
    each = rng.normal(0.0, within * np.sqrt(1.0 - STEADY), (sites, *shape))
    return site, nightly + each


def test_scores(of_each: int, hardness: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and truth of test recordings, one of each site."""
    rng = np.random.default_rng((1, seed))
    drawn = [
        rng.normal(mean / hardness, np.hypot(between, within), of_each)
        for mean, between, within in (OTHER, LEAK)
    ]
    return sigmoid(np.concatenate(drawn)), np.repeat([False, True], of_each)


def network_rows(
    scores: np.ndarray, levels: np.ndarray, first_night: int = 0
) -> Iterator[dict[str, Any]]:
    """Rows of predict, night after night; of each site and night `[S, N, R]` recordings."""
    for night in range(scores.shape[1]):
        for site in range(len(scores)):
            for number in range(scores.shape[2]):
                score = scores[site, night, number]
                if np.isnan(score):
                    continue
                made = FIRST + timedelta(days=first_night + night, minutes=45 * number)
                yield {
                    "path": f"{first_night + night:02}/S{site:05}-{number}.wav",
                    "site": f"S{site:05}",
                    "recorded_at": made.isoformat(),
                    "decision": "leak" if score >= 0.5 else "no_leak",
                    "leak_prob": float(score),
                    "quiet_level_dbfs": float(levels[site, night, number]),
                    "source_rate_hz": 16000,
                    "model": "made up",
                }
