"""Recordings with a verdict each: the content of recordings.csv and of the report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from leakdet.acoustics.clip import Clip, MelColumns
from leakdet.evaluation.class_tables import ClassScores
from leakdet.tables.write import write_csv

TIMELINE_POINTS = 100


@runtime_checkable
class RecordingMedia(Protocol):
    """Picture and sound of recordings, read on demand; None where there is none."""

    def mel(self, row: int) -> MelColumns | None: ...

    def clip(self, row: int, start_s: float, max_s: float) -> Clip | None: ...


@dataclass
class ScoredRecordings:
    """R recordings and their W windows with scores and verdicts; `name` is their split or protocol.

    `score` is in [0, 1]; `threshold` may differ from fold to fold; `probability` is the calibrated
    score, None where the rule is not calibrated.
    """

    name: str
    recording_id: Shaped[np.ndarray, " R"]
    label: Shaped[np.ndarray, " R"]
    is_leak: Bool[np.ndarray, " R"]
    score: Float[np.ndarray, " R"]
    threshold: Float[np.ndarray, " R"]
    window_prob: Float[np.ndarray, " W"]
    recording_offsets: Int[np.ndarray, " R+1"]
    probability: Float[np.ndarray, " R"] | None = None
    window_start_s: Float[np.ndarray, " W"] | None = None
    duration_s: Float[np.ndarray, " R"] | None = None
    flags: Shaped[np.ndarray, " R"] | None = None
    groups: dict[str, np.ndarray] = field(default_factory=dict)
    media: RecordingMedia | None = None
    familiarity: Float[np.ndarray, " R"] | None = None  # above 1: unlike the training recordings
    classes: ClassScores | None = None  # of a multiclass model
    reason: Shaped[np.ndarray, " R"] | None = None  # why predict does not decide; "": it does

    @property
    def decision(self) -> Bool[np.ndarray, " R"]:
        """True where the score reaches the threshold, also of what predict leaves undecided."""
        return np.asarray(self.score >= self.threshold)

    @property
    def decided(self) -> Bool[np.ndarray, " R"]:
        """True where predict decides."""
        return np.ones(len(self), bool) if self.reason is None else np.asarray(self.reason == "")

    @property
    def wrong(self) -> Bool[np.ndarray, " R"]:
        return np.asarray(self.decision != self.is_leak)

    @property
    def one_threshold(self) -> float | None:
        """The threshold of all recordings, None where they have several."""
        values = np.unique(self.threshold)
        return float(values[0]) if len(values) == 1 else None

    def __len__(self) -> int:
        return len(self.is_leak)

    def take(self, rows: Int[np.ndarray, " N"]) -> "ScoredRecordings":
        """The verdicts on recordings `rows`, in that order, without pictures, sounds, classes."""
        names = (
            "recording_id label is_leak score threshold probability duration_s flags familiarity "
            "reason"
        )
        of_rows: dict[str, Any] = {name: getattr(self, name) for name in names.split()}
        picked: dict[str, Any] = {
            name: None if of is None else of[rows] for name, of in of_rows.items()
        }
        bounds = [self.windows_of(row) for row in rows.tolist()]
        windows = np.concatenate([np.arange(of.start, of.stop) for of in bounds])
        return replace(
            self,
            **picked,
            window_prob=self.window_prob[windows],
            window_start_s=None if self.window_start_s is None else self.window_start_s[windows],
            recording_offsets=np.cumsum([0, *(of.stop - of.start for of in bounds)]),
            groups={column: values[rows] for column, values in self.groups.items()},
            media=None,
            classes=None,
        )

    def windows_of(self, row: int) -> slice:
        return slice(int(self.recording_offsets[row]), int(self.recording_offsets[row + 1]))

    def timeline(self, row: int) -> Float[np.ndarray, " points"]:
        """Window probabilities in order; of more than 100, the highest of 100 stretches."""
        return timeline_points(self.window_prob[self.windows_of(row)])

    def resampling_units(self, columns: Sequence[str]) -> Shaped[np.ndarray, " R"] | None:
        """The group of each recording over several columns, for a bootstrap to draw whole groups.

        None, for single recordings, where a column is missing, none is given, or there is one group
        only.
        """
        if not columns or any(column not in self.groups for column in columns):
            return None
        rows = zip(*(self.groups[column] for column in columns), strict=True)
        units = np.array([" / ".join(row) for row in rows])  # as of folds
        return units if len(np.unique(units)) > 1 else None


def timeline_points(prob: Float[np.ndarray, " W"]) -> Float[np.ndarray, " points"]:
    """Window probabilities in order; of more than 100, the highest of 100 stretches."""
    if len(prob) <= TIMELINE_POINTS:
        return prob
    starts = np.linspace(0, len(prob), TIMELINE_POINTS, endpoint=False).astype(np.int64)
    return np.asarray(np.maximum.reduceat(prob, starts))


def decision_name(leak: bool) -> str:
    return "leak" if leak else "no_leak"


def csv_rows(scored: ScoredRecordings) -> Iterator[dict[str, Any]]:
    """One row per recording: its label, the verdict, the windows behind it, and its groups."""
    decisions = scored.decision
    windows = np.diff(scored.recording_offsets)
    above = scored.window_prob >= np.repeat(scored.threshold, windows)
    leak_windows = np.add.reduceat(above, scored.recording_offsets[:-1], dtype=np.int64)
    for index in range(len(scored)):
        row: dict[str, Any] = {
            "recording_id": str(scored.recording_id[index]),
            "split": scored.name,
            "label": str(scored.label[index]),
            "is_leak": int(scored.is_leak[index]),
            "decision": decision_name(bool(decisions[index])),
            "leak_prob": round(float(scored.score[index]), 6),
            "threshold": round(float(scored.threshold[index]), 6),
        }
        if scored.reason is not None:
            row["reason"] = str(scored.reason[index])
        if scored.probability is not None:
            row["calibrated_prob"] = round(float(scored.probability[index]), 6)
        if scored.classes is not None:
            row |= scored.classes.row(index)
        row |= {"windows": int(windows[index]), "leak_windows": int(leak_windows[index])}
        if scored.duration_s is not None:
            row["duration_s"] = round(float(scored.duration_s[index]), 3)
        if scored.flags is not None:
            row["flags"] = str(scored.flags[index])
        if scored.familiarity is not None:
            row["familiarity"] = round(float(scored.familiarity[index]), 3)
        row |= {column: str(values[index]) for column, values in scored.groups.items()}
        yield row | {"timeline": " ".join(f"{value:.3f}" for value in scored.timeline(index))}


def write_recordings(path: Path, splits: Mapping[str, ScoredRecordings]) -> None:
    """Write recordings.csv of several splits, with the columns of all of them."""
    first_rows = [next(csv_rows(scored), {}) for scored in splits.values()]
    columns = dict.fromkeys(name for row in first_rows for name in row if name != "timeline")
    rows = chain.from_iterable(map(csv_rows, splits.values()))
    write_csv(path, rows, [*columns, "timeline"])
