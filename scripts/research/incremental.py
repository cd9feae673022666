"""The rule of Ma et al. (2025) on a pipe rig in time order: its part of docs/results.md.

Of each sensor the first recordings train a model; the others come in three rounds. In each the
model so far scores the round, then learns it: not at all, the verified ones, or the unverified ones
too. Every recording is scored before it is learnt.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import kept
from leakdet.cli.compose import compose
from leakdet.detection.detector import MelDetector
from leakdet.evaluation.metrics import auroc, binary_metrics
from leakdet.evaluation.split_scores import apply_rule, score_split
from leakdet.learning.paper import learn_in_rounds
from leakdet.learning.training import JOINT, TARGET, Material, train_on
from learn_curves import SENSORS, Rig
from rig import build, parser, table, values, write_part

ROUNDS = 3
FIRST = 0.4  # share of the recordings that train the first model
VERIFIED = 0.25  # share of those of a round whose truth is known
VARIANTS = {
    "nothing": "the first model throughout",
    "verified": "verified recordings alone, all of their windows",
    "verified half": "verified recordings alone, half of their windows",
    "rule": "the rule: verified and unverified, half of their windows",
    "all": "verified and unverified, all of their windows",
}
TEXT = """\
## The incremental rule, in time order

By `scripts/research/incremental.py`: of each sensor the first {first:.0%} of the recordings in time order train a
model; the others come in {rounds} rounds, a quarter of each verified, {seeds} draws of which. Every recording is
scored before it is learnt, so the scores are those of rounds 2 and {rounds} by what was learnt from those
before them: few ({scored}), so read no digits.

{rows}

{finding}
The recorder's recordings lie in time order by class, so its numbers may be drift. When the analog
ones were made is not known: they are in the order of pipe and pressure.
"""


def main() -> None:
    command = parser(__doc__, "incremental")
    command.add_argument("--seeds", type=int, default=3)
    options = command.parse_args()
    rig = Rig(build(options.work / "store"))
    rows = [
        kept(
            options.work / f"{sensor} {variant} {seed}.json",
            partial(run, rig, sensor, variant, seed),
        )
        for sensor, seed, variant in product(SENSORS, range(options.seeds), VARIANTS)
    ]
    text = page(rows, options.seeds)
    write_part("incremental", text, options.dry_run)


def run(rig: Rig, sensor: str, variant: str, seed: int) -> dict[str, Any]:
    """The scores of rounds 2 and 3, each by a model that has learnt the rounds before it."""
    rows = in_time_order(rig, sensor)
    first, later = np.split(rows, [round(FIRST * len(rows))])
    parts = np.array_split(later, ROUNDS)
    rng = np.random.default_rng(seed)
    old = rig.model(seed, Material(rig.view, rig.store, TARGET), first)
    scored = []
    for number in range(1, ROUNDS):
        learnt = np.concatenate(parts[:number])
        verified = rng.permutation(len(learnt)) < max(1, round(VERIFIED * len(learnt)))
        model = learn(rig, old, first, parts[:number], learnt[verified], variant, seed)
        found = apply_rule(score_split(model, rig.view.take(parts[number], "test")), model.rule)
        scored.append((found.score, found.decision, found.is_leak))
    score, decision, is_leak = (np.concatenate(values) for values in zip(*scored, strict=True))
    half = binary_metrics(decision.astype(np.float64), is_leak, 0.5)
    facts = {"sensor": sensor, "variant": variant, "n": len(score)}
    area = auroc(score, is_leak)
    return facts | {"auroc": area, "balanced_accuracy": half["balanced_accuracy"]}


def in_time_order(rig: Rig, sensor: str) -> np.ndarray:
    """The rows of a sensor in the order of their file names, which `recorded_at` then holds.

    The names of the recorder begin with the time, those of the analog sensor with pipe and pressure.
    """
    for base in rig.view.bases:
        base.groups["recorded_at"] = np.array([Path(name).name for name in base.recording_ids])
    rows = rig.rows(sensor=sensor)
    return rows[np.argsort([Path(name).name for name in rig.view.recording_ids[rows]])]


def learn(
    rig: Rig,
    old: MelDetector,
    first: np.ndarray,
    rounds: Sequence[np.ndarray],
    verified: np.ndarray,
    variant: str,
    seed: int,
) -> MelDetector:
    """The model after these rounds."""
    if variant == "nothing":
        return old
    material = Material(rig.view, rig.store, JOINT, rig.view.take(first, "train"))
    keep = 1.0 if variant == "all" else 0.5
    words = [f"learn.rounds={len(rounds)}", f"learn.keep={keep}", "learn.target_weight=1"]
    config = compose("learn", ["model=none", f"seed={seed}", "callbacks=none", *words])
    unverified = rig.view.take(np.setdiff1d(np.concatenate(rounds), verified), "train")
    hidden = replace(unverified, label_id=np.zeros(unverified.recordings, np.int64))
    with tempfile.TemporaryDirectory() as folder:
        if variant == "verified":
            return train_on(config, material, verified, Path(folder))
        rest = None if variant == "verified half" else hidden
        return learn_in_rounds(config, old, material, verified, rest, Path(folder))[0]


def page(rows: Sequence[Mapping[str, Any]], seeds: int) -> str:
    """The part of this script."""
    lines = []
    for variant, meaning in VARIANTS.items():
        for sensor in SENSORS:
            area, accuracy = of_draws(rows, sensor, variant)
            rise = (area - of_draws(rows, sensor, "nothing")[0]).mean()
            cells = (f"{area.mean():.2f} ({area.std():.2f})", f"{accuracy.mean():.2f}")
            lines.append((meaning, sensor, *cells, f"{rise:+.2f}"))
    counts = {row["sensor"]: row["n"] for row in rows}
    scored = ", ".join(f"{count} of {sensor}" for sensor, count in counts.items())
    facts = {"scored": scored, "first": FIRST, "rounds": ROUNDS, "seeds": seeds}
    heads = ("learnt in each round", "sensor", "AUROC, mean (sd over draws)", "balanced accuracy")
    lines_table = table((*heads, "AUROC against nothing"), lines)
    return TEXT.format(**facts, rows=lines_table, finding=finding(rows))


def of_draws(
    rows: Sequence[Mapping[str, Any]], sensor: str, variant: str
) -> tuple[np.ndarray, np.ndarray]:
    """AUROC and balanced accuracy of every draw."""
    draws = [row for row in rows if (row["sensor"], row["variant"]) == (sensor, variant)]
    return values(draws, "auroc"), values(draws, "balanced_accuracy")


def finding(rows: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    for sensor in SENSORS:
        change = of_draws(rows, sensor, "rule")[0] - of_draws(rows, sensor, "verified")[0]
        parts.append(f"{change.mean():+.2f} on {sensor}")
    return f"Against the verified ones alone, the rule changes the AUROC by {' and '.join(parts)}."


if __name__ == "__main__":
    main()
