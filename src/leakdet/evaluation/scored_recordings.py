"""Recordings with a verdict each, from one split or pooled over folds: what recordings.csv and the report show."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from leakdet.acoustics.clip import Clip

TIMELINE_POINTS = 100


@dataclass(frozen=True)
class MelColumns:
    """The log-mel of a recording in time order, dB [mels, columns], and the seconds that it covers."""

    level_db: np.ndarray
    duration_s: float | None
    low_hz: float | None
    high_hz: float | None


@runtime_checkable
class Evidence(Protocol):
    """Where a recording can be looked at and listened to, read on demand; None where it cannot."""

    def mel(self, row: int) -> MelColumns | None: ...

    def clip(self, row: int, start_s: float, most_s: float) -> Clip | None: ...


@dataclass
class ScoredRecordings:
    """Arrays of R recordings and their W windows. `name` is the split or the protocol that they belong to."""

    name: str
    recording_id: np.ndarray  # str [R]
    label: np.ndarray  # str [R]
    is_leak: np.ndarray  # bool [R]
    score: np.ndarray  # float64 [R], 0..1
    threshold: np.ndarray  # float64 [R]: one for all, or one per fold
    window_prob: np.ndarray  # float32 [W]
    recording_offsets: np.ndarray  # int64 [R + 1]
    probability: np.ndarray | None = None  # float64 [R], calibrated; None: not calibrated
    window_start_s: np.ndarray | None = None  # float32 [W]
    window_s: float | None = None
    duration_s: np.ndarray | None = None  # float [R]
    flags: np.ndarray | None = None  # str [R]
    groups: dict[str, np.ndarray] = field(default_factory=dict)  # column -> str [R]
    evidence: Evidence | None = None

    @property
    def decision(self) -> np.ndarray:
        """True where the verdict is leak, bool [R]."""
        return np.asarray(self.score >= self.threshold)

    @property
    def wrong(self) -> np.ndarray:
        return np.asarray(self.decision != self.is_leak)

    @property
    def one_threshold(self) -> float | None:
        """The threshold of all recordings, None where they have several."""
        values = np.unique(self.threshold)
        return float(values[0]) if len(values) == 1 else None

    def __len__(self) -> int:
        return len(self.is_leak)

    def windows_of(self, row: int) -> slice:
        return slice(int(self.recording_offsets[row]), int(self.recording_offsets[row + 1]))

    def timeline(self, row: int) -> np.ndarray:
        """Probabilities of the windows in order, float32 [at most 100]: of a longer recording, the highest of each stretch."""
        prob = self.window_prob[self.windows_of(row)]
        if len(prob) <= TIMELINE_POINTS:
            return prob
        starts = np.linspace(0, len(prob), TIMELINE_POINTS, endpoint=False).astype(np.int64)
        return np.asarray(np.maximum.reduceat(prob, starts))

    def grouping(self, columns: Sequence[str]) -> np.ndarray | None:
        """One name per recording from several group columns, str [R]; None where a column is missing or none is given."""
        if not columns or any(column not in self.groups for column in columns):
            return None
        return np.array(
            [
                "/".join(row)
                for row in zip(*(self.groups[column] for column in columns), strict=True)
            ]
        )


def decision_name(leak: bool) -> str:
    return "leak" if leak else "no_leak"


def csv_rows(scored: ScoredRecordings) -> Iterator[dict[str, Any]]:
    """One row per recording: what is true, what was decided, the windows behind it, and its groups."""
    decisions = scored.decision
    windows = np.diff(scored.recording_offsets)
    per_window = np.repeat(scored.threshold, windows)
    leak_windows = np.add.reduceat(
        scored.window_prob >= per_window, scored.recording_offsets[:-1], dtype=np.int64
    )
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
        if scored.probability is not None:
            row["calibrated_prob"] = round(float(scored.probability[index]), 6)
        row |= {"windows": int(windows[index]), "leak_windows": int(leak_windows[index])}
        if scored.duration_s is not None:
            row["duration_s"] = round(float(scored.duration_s[index]), 3)
        if scored.flags is not None:
            row["flags"] = str(scored.flags[index])
        row |= {column: str(values[index]) for column, values in scored.groups.items()}
        yield row | {"timeline": " ".join(f"{value:.3f}" for value in scored.timeline(index))}


def write_csv(
    path: Path, tables: Mapping[str, ScoredRecordings] | Sequence[ScoredRecordings]
) -> None:
    """recordings.csv of several splits, with the columns of all of them."""
    parts = list(tables.values()) if isinstance(tables, Mapping) else list(tables)
    firsts = [next(csv_rows(part), {}) for part in parts]
    columns = list(
        dict.fromkeys(column for row in firsts for column in row if column != "timeline")
    )
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.DictWriter(file, [*columns, "timeline"], restval="")
        writer.writeheader()
        for part in parts:
            writer.writerows(csv_rows(part))
