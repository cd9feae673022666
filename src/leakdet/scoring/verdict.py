"""The verdict on a recording as a row."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from leakdet.acoustics.measures import Flag

Decision = Literal["leak", "no_leak", "undecided"]
Reason = Literal["", "silent", "short", "stuck", "dropouts", "unfamiliar"]


class Window(NamedTuple):
    """A window of a recording: its bounds in seconds, and its leak probability in 0..1."""

    start_s: float
    end_s: float
    leak_prob: float


@dataclass(frozen=True)
class Verdict:
    """A detector's decision on one recording, with its evidence.

    `leak_prob` is the score of its live windows; it is a leak where `leak_prob` reaches
    `threshold`. A recording without a whole live window is `undecided`, and `reason` says why.
    Where a recording cannot be scored at all, `error` says why. What is unknown is None.
    """

    path: str | None  # None: an array
    decision: Decision | None
    leak_prob: float | None
    threshold: float
    windows: list[Window] = field(default_factory=list)
    leak_windows: int | None = None  # live windows that reach the threshold by themselves
    duration_s: float | None = None
    source_rate_hz: int | None = None
    flags: list[Flag] = field(default_factory=list)  # oddities of the file and its sound
    error: str = ""
    reason: Reason = ""  # why it is undecided
    model: str = ""  # the first 12 digits of the model file's SHA-256
    # distance to the training recordings over its threshold; above 1 it sounds unlike them
    familiarity: float | None = None
    p10_prob: float | None = None  # 10th percentile of the leak probability of its live windows
    quiet_level_dbfs: float | None = None  # of its quiet part, as `QuietLevel` defines it
    mains_hum_db: float | None = None  # of 50 or 60 Hz and harmonics above their neighbours
    channel: int = 0  # of the file, from 1, where each has a verdict; 0: they were made one
    # of a multiclass model: the most probable class where it is decided, and the probability of
    # each class, of which those that mean a leak add up to `leak_prob`
    class_name: str | None = None
    class_prob: dict[str, float | None] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)  # what its list tells of it
    # which windows hold sound; None: all. No part of the row
    live: npt.NDArray[np.bool_] | None = field(default=None, compare=False, repr=False)
    # its sound whatever its level (`band_features`), float32; no part of the row
    features: npt.NDArray[np.float32] | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the row of `leakdet predict`, and `timeline` with the windows.

        >>> Verdict("a.wav", "leak", 0.9, 0.5, [Window(0.0, 1.0, 0.9)], 1, 1.0, 16000).to_dict()
        {'path': 'a.wav', 'decision': 'leak', 'reason': '', 'leak_prob': 0.9, 'threshold': 0.5,
         'windows': 1, 'leak_windows': 1, 'duration_s': 1.0, 'source_rate_hz': 16000, 'flags': '',
         'familiarity': None, 'model': '', 'error': '', 'p10_prob': None, 'quiet_level_dbfs': None,
         'mains_hum_db': None, 'timeline': [(0.0, 1.0, 0.9)]}
        """
        channel = {"channel": self.channel} if self.channel else {}
        return {
            "path": self.path,
            **self.columns,
            **channel,
            "decision": self.decision,
            "reason": self.reason,
            "leak_prob": self.leak_prob,
            "threshold": self.threshold,
            "windows": None if self.error else len(self.windows),
            "leak_windows": self.leak_windows,
            "duration_s": self.duration_s,
            "source_rate_hz": self.source_rate_hz,
            "flags": ",".join(self.flags),
            "familiarity": self.familiarity,
            "model": self.model,
            "error": self.error,
            "p10_prob": self.p10_prob,
            "quiet_level_dbfs": self.quiet_level_dbfs,
            "mains_hum_db": self.mains_hum_db,
            **self._classes(),
            "timeline": [tuple(window) for window in self.windows],
        }

    def _classes(self) -> dict[str, Any]:
        """Columns that a multiclass model adds to the row."""
        if not self.class_prob:
            return {}
        return {"class": self.class_name} | {
            f"prob_{name}": prob for name, prob in self.class_prob.items()
        }
