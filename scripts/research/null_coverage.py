"""Measure how often the interval of a null run covers AUROC 0.5, with trained networks.

    PYTHONPATH=scripts python scripts/research/null_coverage.py

Every seed has a demo store, permutations and trainings of its own.
"""

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks import Row, Section, measure, parser
from leakdet.building.cached_stores import demo_store
from leakdet.cli.compose import compose
from leakdet.core.messages import LOG
from leakdet.evaluation.audit import audit, null_run_findings
from leakdet.storage.opening import open_split
from leakdet.training.scratch import further_aurocs

PERMUTATIONS = 6  # as data.shuffle_repeats has by default
NOTE = (
    "Demo stores of 60 recordings of 2 s at 10 sites, of which 12 at 2 sites are judged; network "
    f"`linear`, three passes, {PERMUTATIONS} permutations of the labels per null run, as by "
    "default. `covered`: null runs whose 95 % interval holds 0.5; `alarms`: those that say that "
    "labels leak, which none do; `spread`: standard deviation of the mean AUROC from one null run "
    "to the next; `reach`: mean half width of the interval."
)


def null_run(seed: int, cache: Path) -> Row:
    """Null run of one seed, as `leakdet train data.shuffle_labels=true` has it."""
    overrides = ["experiment=smoke", "network=linear", "data.shuffle_labels=true"]
    overrides += [f"data.shuffle_repeats={PERMUTATIONS + 1}", f"seed={1000 * seed}"]
    config = compose("train", [*overrides, f"demo.seed={seed}"])
    store = demo_store(config.demo, config.signal, cache)
    aurocs = further_aurocs(config, store, cache)
    audited = audit(open_split(store, "train"), open_split(store, "test"), null_aurocs=aurocs)
    result: Row = audited["null_run"]
    return result


def rows(seeds: int) -> Iterator[Row]:
    torch.set_num_threads(1)
    LOG.setLevel(logging.ERROR)
    results = []
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as cache:
            results.append(null_run(seed, Path(cache)))
        low, high = results[-1]["interval"]
        print(f"seed {seed}: {results[-1]['auroc']:.3f} [{low:.2f}, {high:.2f}]", flush=True)
    ends = np.array([result["interval"] for result in results])
    means = np.array([result["auroc"] for result in results])
    yield {
        "null runs": len(results),
        "covered": int(((ends[:, 0] <= 0.5) & (ends[:, 1] >= 0.5)).sum()),
        "alarms": sum(bool(null_run_findings(result)[0]) for result in results),
        "mean AUROC": float(means.mean()),
        "spread": float(means.std(ddof=1)),
        "reach": float(np.diff(ends).mean() / 2),
    }


if __name__ == "__main__":
    command = parser(__doc__)
    command.add_argument("--seeds", type=int, default=20)
    given = command.parse_args()
    title = "Null runs of trained networks"
    measure(Section("null_run", title, rows(given.seeds), NOTE), given.dry_run)
