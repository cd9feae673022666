"""The part of docs/results.md on learning from a handful of confirmed recordings."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from results_page import table_row

# mean of both directions at so many leaks and as many recordings without one
GOALS = ((4, "auroc", 0.87), (4, "balanced_accuracy", 0.75), (2, "auroc", 0.76))
NAMES = {"auroc": "AUROC", "balanced_accuracy": "balanced accuracy"}
TEXT = """\
## Learning from a handful of confirmed recordings

By `scripts/learn_curves.py`, {draws} draws. No cell of pipe, position and pressure is both learnt
and scored, so few recordings are left to score: read the mean over draws, and the worst draw.

**A new sensor**: a small network from scratch on the confirmed recordings alone
(`learn.from=target`). 0 labels: a model of all recordings of the other sensor.

| labels (leak + none) | sensor | scored in a draw | AUROC, mean (sd; worst draw) | balanced accuracy, mean (worst draw) |
|---|---|---|---|---|
{curves}

{goals}

**A known sensor, a new pipe**: a model of one pipe, and models that learnt 2 + 2 recordings of the
other pipe, beside the first pipe's (`joint`, weight 3) or alone (`target`); {joint_draws} draws of each sensor
over both directions, all three on the same recordings.

| sensor | | AUROC | balanced accuracy | AUROC against the old model (worst; best draw) |
|---|---|---|---|---|
{joint}

{finding}
"""


def page(rows: Sequence[Mapping[str, Any]], draws: int) -> str:
    """The part of scripts/learn_curves.py."""
    joint = [row for row in rows if row["kind"] == "joint"]
    sensors = list(dict.fromkeys(row["sensor"] for row in rows))
    return TEXT.format(
        draws=draws,
        curves="\n".join(curve_rows(rows, sensors)),
        goals=goal_sentence(rows),
        joint_draws=len(joint) // len(sensors),
        joint="\n".join(joint_rows(joint, sensors)),
        finding=joint_sentence(joint),
    )


def curve_rows(rows: Sequence[Mapping[str, Any]], sensors: Sequence[str]) -> Iterable[str]:
    for size in sorted({row["size"] for row in rows if "size" in row}):
        for sensor in (*sensors, "both"):
            of = [
                row for row in rows if row.get("size") == size and sensor in (row["sensor"], "both")
            ]
            area, accuracy = (values(of, key) for key in NAMES)
            spread = f" ({area.std():.2f}; {area.min():.2f})" if len(of) > 2 else ""
            worst = f" ({accuracy.min():.2f})" if len(of) > 2 else ""
            yield table_row(
                f"{size} + {size}",
                sensor,
                f"{values(of, 'n').mean():.0f}",
                f"{area.mean():.2f}{spread}",
                f"{accuracy.mean():.2f}{worst}",
            )


def values(rows: Iterable[Mapping[str, Any]], key: str) -> np.ndarray:
    return np.array([row[key] for row in rows], float)


def goal_sentence(rows: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    for size, metric, goal in GOALS:
        mean = values((row for row in rows if row.get("size") == size), metric).mean()
        met = "met" if round(mean, 3) >= goal else "missed"
        parts.append(f"{size} + {size}: {NAMES[metric]} {mean:.2f}, goal {goal:.2f} {met}")
    return f"Over both sensors: {'; '.join(parts)}."


def joint_rows(joint: Sequence[Mapping[str, Any]], sensors: Sequence[str]) -> Iterable[str]:
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
            yield table_row(sensor, name, f"{area.mean():.2f}", f"{accuracy:.2f}", paired)


def joint_sentence(joint: Sequence[Mapping[str, Any]]) -> str:
    rise = values(joint, "auroc") - values(joint, "old_auroc")
    beside = values(joint, "auroc") - values(joint, "target_auroc")
    return (
        f"Joint has a higher AUROC than the old model in {(rise > 0).sum()} of {len(rise)} draws, the "
        f"same in {(rise == 0).sum()}; against the new recordings alone it is {beside.mean():+.2f}. "
        "The draws share recordings: their spread is no confidence interval."
    )
