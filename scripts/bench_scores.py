"""Time the threshold search and the bootstrap of very many recordings, with random scores."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks import median_s, write_section
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


def main() -> None:
    scores, is_leak = scores_of(SEARCHED)
    rows: list[dict[str, Any]] = []
    for policy in POLICIES:
        seconds = median_s(partial(fit_threshold, scores, is_leak, policy), RUNS)
        rows.append({"what": f"threshold by {policy}", "recordings": SEARCHED, "seconds": seconds})
    scores, is_leak = scores_of(DRAWN)
    intervals = partial(bootstrap_intervals, scores, is_leak, 0.5, replicates=REPLICATES)
    seconds = median_s(intervals, RUNS)
    what = f"intervals of all metrics, {REPLICATES:,} replicates"
    rows.append({"what": what, "recordings": DRAWN, "seconds": seconds})
    write_section("scores", "Judging very many recordings", rows, NOTE)
    for row in rows:
        print(f"{row['what']}: {row['seconds']:.2f} s")


if __name__ == "__main__":
    main()
