"""Time the threshold search and the bootstrap of very many recordings, with random scores."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks import Row, Section, median_s, run
from leakdet.detection.thresholds import POLICIES, fit_threshold
from leakdet.evaluation.intervals import bootstrap_intervals

RUNS = 3
NOTE = (
    f"Median of {RUNS} runs on one thread, random scores, one recording in twenty a leak. The "
    "search looks at every distinct score. A bootstrap draws whole recordings and computes every "
    "metric of every replicate."
)
SEARCHED, DRAWN, REPLICATES = 1_000_000, 100_000, 2_000


def scores_of(recordings: int) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping scores in [0, 1], and which of them are leaks."""
    rng = np.random.default_rng(0)
    is_leak = rng.random(recordings) < 0.05
    return 1.0 / (1.0 + np.exp(-rng.normal(2.0 * is_leak - 1.0, 1.0))), is_leak


def rows() -> Iterator[Row]:
    searched = scores_of(SEARCHED)
    for policy in POLICIES:
        seconds = median_s(partial(fit_threshold, *searched, policy), RUNS)
        yield {"what": f"threshold by {policy}", "recordings": SEARCHED, "seconds": seconds}
    intervals = partial(bootstrap_intervals, *scores_of(DRAWN), 0.5, replicates=REPLICATES)
    what = f"intervals of all metrics, {REPLICATES:,} replicates"
    yield {"what": what, "recordings": DRAWN, "seconds": median_s(intervals, RUNS)}


if __name__ == "__main__":
    run(__doc__, Section("scores", "Judging very many recordings", rows(), NOTE))
