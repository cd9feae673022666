"""Scoring a split with a detector, and the tables that come of it. Train and evaluate share it, so their numbers agree."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leakdet.detection.decision import DecisionRule
from leakdet.detection.detector import Detector
from leakdet.detection.intervals import bootstrap_intervals
from leakdet.detection.metrics import binary_metrics
from leakdet.errors import InputError
from leakdet.storage.opening import leak_label_of
from leakdet.storage.store import StoreSplit

BLOCK_WINDOWS = 4096


def blocks(split: StoreSplit) -> Iterator[torch.Tensor]:
    """All windows in order, [up to BLOCK_WINDOWS, S, M, T] float16."""
    for start in range(0, split.windows, BLOCK_WINDOWS):
        yield torch.from_numpy(np.array(split.mel.rows(start, min(split.windows, start + BLOCK_WINDOWS))))


@dataclass
class SplitScores:
    """A split as a detector heard it: leak probability of every window, and what is true."""

    split: StoreSplit
    window_prob: np.ndarray  # float32 [W]
    is_leak: np.ndarray  # bool [R]

    @property
    def window_is_leak(self) -> np.ndarray:
        return np.repeat(self.is_leak, self.split.windows_per_recording)

    @property
    def recording_of_window(self) -> np.ndarray:
        return np.repeat(np.arange(self.split.recordings), self.split.windows_per_recording)


def score_split(detector: Detector, split: StoreSplit, leak: str | None = None) -> SplitScores:
    """Raises `InputError` where the store's mel is not what the detector was trained on."""
    check_same_signal(detector, split)
    leak_id = split.label_names.index(leak_label_of(split, leak))
    prob = [detector.window_prob(block).numpy() for block in blocks(split)]
    return SplitScores(split, np.concatenate(prob), split.label_id == leak_id)


def check_same_signal(detector: Detector, split: StoreSplit) -> None:
    where = f"{split.files[0].parent} ({split.name})"
    if detector.signal and split.signal and detector.signal != split.signal:
        differing = "; ".join(detector.signal.differences(split.signal))
        raise InputError(
            f"{where}: the model was trained on another signal (model / store): {differing}. Build the store with it."
        )
    if tuple(split.mel.shape[1:]) != detector.mel_shape:
        raise InputError(f"{where}: windows are {split.mel.shape[1:]}, the model takes {detector.mel_shape}.")


def evaluation(scores: SplitScores, rule: DecisionRule, replicates: int = 2000) -> dict[str, Any]:
    """`{"recording": {...}, "window": {...}}`: every metric with its 95 % interval, as in metrics.json.

    Windows of one recording are not independent: their intervals resample whole recordings.
    """
    offsets = scores.split.recording_offsets
    recording_scores = rule.score(scores.window_prob, offsets)
    tables = {}
    for unit, values, truth, groups in (
        ("recording", recording_scores, scores.is_leak, None),
        ("window", scores.window_prob, scores.window_is_leak, scores.recording_of_window),
    ):
        table = binary_metrics(values, truth, rule.threshold)
        table["intervals"] = bootstrap_intervals(values, truth, rule.threshold, groups, replicates=replicates)
        tables[unit] = table
    return tables


RECORDING_COLUMNS = (
    "recording_id",
    "split",
    "label",
    "is_leak",
    "decision",
    "leak_prob",
    "threshold",
    "windows",
    "leak_windows",
)


def recording_rows(scores: SplitScores, rule: DecisionRule) -> list[dict[str, Any]]:
    """One row per recording: what is true, what was decided, and its groups."""
    split = scores.split
    values = rule.score(scores.window_prob, split.recording_offsets)
    leak_windows = np.add.reduceat(
        scores.window_prob >= rule.threshold, split.recording_offsets[:-1], dtype=np.int64
    )
    decisions = rule.decide(values)
    rows = []
    for index, identity in enumerate(split.recording_ids):
        row = {
            "recording_id": str(identity),
            "split": split.name,
            "label": split.label_names[split.label_id[index]],
            "is_leak": int(scores.is_leak[index]),
            "decision": decision_name(bool(decisions[index])),
            "leak_prob": round(float(values[index]), 6),
            "threshold": round(rule.threshold, 6),
            "windows": int(split.windows_per_recording[index]),
            "leak_windows": int(leak_windows[index]),
        }
        rows.append({**row, **{column: str(found[index]) for column, found in split.groups.items()}})
    return rows


def decision_name(leak: bool) -> str:
    return "leak" if leak else "no_leak"


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """CSV with the columns of all rows, in the order in which they first appear."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
