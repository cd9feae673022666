"""Learning from a handful of confirmed recordings on a pipe rig: its part of docs/results.md.

Both directions from one sensor to the other, and a new pipe of a known sensor. No cell of pipe,
position and pressure is both learnt and scored.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import kept
from leakdet.cli.compose import compose
from leakdet.detection.detector import MelDetector
from leakdet.evaluation.metrics import auroc, binary_metrics
from leakdet.evaluation.split_scores import apply_rule, score_split
from leakdet.learning.training import JOINT, TARGET, Material, train_on
from leakdet.storage.opening import open_labelled, split_names
from leakdet.storage.views import pooled
from rig import build, parser, table, values, write_part

# mean of both directions at so many leaks and as many recordings without one
GOALS = ((4, "auroc", 0.87), (4, "balanced_accuracy", 0.75), (2, "auroc", 0.76))
NAMES = {"auroc": "AUROC", "balanced_accuracy": "balanced accuracy"}
CURVE_HEADS = (
    "labels (leak + none)",
    "sensor",
    "scored in a draw",
    "AUROC, mean (sd; worst draw)",
    "balanced accuracy, mean (worst draw)",
)
RISE = "AUROC against the old model (worst; best draw)"
TEXT = """\
## Learning from a handful of confirmed recordings

By `scripts/research/learn_curves.py`, {draws} draws. No cell of pipe, position and pressure is both learnt
and scored, so few recordings are left to score: read the mean over draws, and the worst draw.

**A new sensor**: a small network from scratch on the confirmed recordings alone
(`learn.from=target`). 0 labels: a model of all recordings of the other sensor.

{curves}

{goals}

**A known sensor, a new pipe**: a model of one pipe, and models that learnt 2 + 2 recordings of the
other pipe, beside the first pipe's (`joint`, weight 3) or alone (`target`); {joint_draws} draws of each sensor
over both directions, all three on the same recordings.

{joint}

{finding}
"""


def page(rows: Sequence[Mapping[str, Any]], draws: int) -> str:
    """The part of this script."""
    joint = [row for row in rows if row["kind"] == "joint"]
    sensors = list(dict.fromkeys(row["sensor"] for row in rows))
    return TEXT.format(
        draws=draws,
        curves=table(CURVE_HEADS, curve_rows(rows, sensors)),
        goals=goal_sentence(rows),
        joint_draws=len(joint) // len(sensors),
        joint=table(("sensor", "", "AUROC", "balanced accuracy", RISE), joint_rows(joint, sensors)),
        finding=joint_sentence(joint),
    )


def curve_rows(
    rows: Sequence[Mapping[str, Any]], sensors: Sequence[str]
) -> Iterator[Sequence[object]]:
    for size in sorted({row["size"] for row in rows if "size" in row}):
        for sensor in (*sensors, "both"):
            of = [
                row for row in rows if row.get("size") == size and sensor in (row["sensor"], "both")
            ]
            area, accuracy = (values(of, key) for key in NAMES)
            spread = f" ({area.std():.2f}; {area.min():.2f})" if len(of) > 2 else ""
            worst = f" ({accuracy.min():.2f})" if len(of) > 2 else ""
            yield (
                f"{size} + {size}",
                sensor,
                f"{values(of, 'n').mean():.0f}",
                f"{area.mean():.2f}{spread}",
                f"{accuracy.mean():.2f}{worst}",
            )


def goal_sentence(rows: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    for size, metric, goal in GOALS:
        mean = values((row for row in rows if row.get("size") == size), metric).mean()
        met = "met" if round(mean, 3) >= goal else "missed"
        parts.append(f"{size} + {size}: {NAMES[metric]} {mean:.2f}, goal {goal:.2f} {met}")
    return f"Over both sensors: {'; '.join(parts)}."


def joint_rows(
    joint: Sequence[Mapping[str, Any]], sensors: Sequence[str]
) -> Iterator[Sequence[object]]:
    for sensor in (*sensors, "both"):
        of = [row for row in joint if sensor in (row["sensor"], "both")]
        old = values(of, "old_auroc")
        for name, prefix in (("old model", "old_"), ("target", "target_"), ("joint", "")):
            area = values(of, f"{prefix}auroc")
            rise = area - old
            paired = (
                f"{rise.mean():+.2f} ({rise.min():+.2f}; {rise.max():+.2f})"
                if prefix != "old_"
                else ""
            )
            accuracy = values(of, f"{prefix}balanced_accuracy").mean()
            yield (sensor, name, f"{area.mean():.2f}", f"{accuracy:.2f}", paired)


def joint_sentence(joint: Sequence[Mapping[str, Any]]) -> str:
    rise = values(joint, "auroc") - values(joint, "old_auroc")
    beside = values(joint, "auroc") - values(joint, "target_auroc")
    return (
        f"Joint has a higher AUROC than the old model in {(rise > 0).sum()} of {len(rise)} draws, the "
        f"same in {(rise == 0).sum()}; against the new recordings alone it is {beside.mean():+.2f}. "
        "The draws share recordings: their spread is no confidence interval."
    )


SENSORS = ("recorder_48k", "analog_40k")
PIPES = ("1", "3")
SIZES = (1, 2, 4, 8)  # leaks, and as many recordings without one
KNOWN_SENSOR_SIZE = 2  # of one pipe of the recorder more would fill every cell
FEWEST_SCORED = 2  # of each class, in other cells
Row = dict[str, Any]


def main() -> None:
    command = parser(__doc__, "learn_curves")
    command.add_argument("--draws", type=int, default=10)
    options = command.parse_args()
    works = experiments(Rig(build(options.work / "store")), options.draws)
    text = page([kept(options.work / f"{key}.json", work) for key, work in works], options.draws)
    write_part("learning", text, options.dry_run)


def experiments(rig: "Rig", draws: int) -> Iterator[tuple[str, Callable[[], Row]]]:
    """Name and work of every draw; what is finished is not run again."""
    for source, target in (SENSORS, SENSORS[::-1]):
        yield f"old {target}", partial(rig.from_other_sensor, source, target)
        for size in SIZES:
            for draw in range(draws):
                yield f"target {target} {size} {draw}", partial(rig.target, target, size, draw)
    for sensor in SENSORS:
        for old, new in (PIPES, PIPES[::-1]):
            for draw in range(draws):
                yield f"joint {sensor} {new} {draw}", partial(rig.joint, sensor, old, new, draw)


class Rig:
    """Leaks and quiet recordings of pipes 1 and 3, and trainings on parts of them."""

    def __init__(self, store: Path) -> None:
        config = compose("learn", ["model=none", "labels.ignore=[ambient,interference]"])
        view = pooled([open_labelled(store, name, config.labels) for name in split_names(store)])
        self.store = store
        self.view = view.take(np.flatnonzero(np.isin(view.groups["pipe"], PIPES)), "all")
        names = ("sensor", "pipe", "position", "pressure")
        columns = [self.view.groups[name].tolist() for name in names]
        self.cell = np.array(["/".join(key) for key in zip(*columns, strict=True)])

    def rows(self, **groups: str) -> np.ndarray:
        masks = [self.view.groups[name] == value for name, value in groups.items()]
        return np.flatnonzero(np.logical_and.reduce(masks))

    def drawn(self, rows: np.ndarray, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """`size` leaks and as many others, and the recordings of other cells, to score."""
        rng = np.random.default_rng([seed, size])
        is_leak = self.view.is_leak[rows]
        for _ in range(10_000):
            learnt = np.concatenate(
                [rng.choice(rows[is_leak == kind], size, replace=False) for kind in (True, False)]
            )
            scored = rows[~np.isin(self.cell[rows], self.cell[learnt])]
            left = self.view.is_leak[scored]
            if min(left.sum(), (~left).sum()) >= FEWEST_SCORED:
                return learnt, scored
        raise SystemExit(f"no draw of {size} + {size} leaves cells to score")

    def model(self, seed: int, material: Material, rows: np.ndarray) -> MelDetector:
        config = compose("learn", ["model=none", f"seed={seed}", "callbacks=none"])
        with tempfile.TemporaryDirectory() as folder:
            return train_on(config, material, rows, Path(folder))

    def metrics(self, model: MelDetector, scored: np.ndarray, prefix: str = "") -> Row:
        found = apply_rule(score_split(model, self.view.take(scored, "test")), model.rule)
        decided = binary_metrics(found.decision.astype(np.float64), found.is_leak, 0.5)
        return {
            f"{prefix}auroc": auroc(found.score, found.is_leak),
            f"{prefix}balanced_accuracy": decided["balanced_accuracy"],
        }

    def from_other_sensor(self, source: str, target: str) -> Row:
        """A model of one sensor on the other one: what 0 labels give."""
        material = Material(self.view, self.store, TARGET)
        model = self.model(0, material, self.rows(sensor=source))
        scored = self.rows(sensor=target)
        return {"kind": "old", "sensor": target, "size": 0, "n": len(scored)} | self.metrics(
            model, scored
        )

    def target(self, sensor: str, size: int, draw: int) -> Row:
        """A model of a handful of recordings of a sensor alone."""
        learnt, scored = self.drawn(self.rows(sensor=sensor), size, draw)
        model = self.model(draw, Material(self.view, self.store, TARGET), learnt)
        facts = {"kind": "target", "sensor": sensor, "size": size, "n": len(scored)}
        return facts | self.metrics(model, scored)

    def joint(self, sensor: str, old: str, new: str, draw: int) -> Row:
        """A model of one pipe, and one that learnt recordings of the other pipe as well."""
        first = self.rows(sensor=sensor, pipe=old)
        rows = self.rows(sensor=sensor, pipe=new)
        learnt, scored = self.drawn(rows, KNOWN_SENSOR_SIZE, draw)
        alone = Material(self.view, self.store, TARGET)
        beside = Material(self.view, self.store, JOINT, self.view.take(first, "train"))
        facts = {"kind": "joint", "sensor": sensor, "pipe": new, "n": len(scored)}
        facts |= self.metrics(self.model(draw, alone, first), scored, "old_")
        facts |= self.metrics(self.model(draw, alone, learnt), scored, "target_")
        return facts | self.metrics(self.model(draw, beside, learnt), scored)


if __name__ == "__main__":
    main()
