"""The input of a report: scored recordings and the content of metrics.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakdet.evaluation.scored_recordings import ScoredRecordings


@dataclass(frozen=True)
class ReportInput:
    """Input of `write_report`.

    `recordings` maps a split or protocol to its scored recordings; `metrics` is the content of
    metrics.json, with a table under each of these names (docs/metrics.md). The last split is the
    judged one, the others are shown beside it. `audit`, `comparison`, `settings` and other entries
    of `metrics` are shown where they are given. `history` is the path of a run's history.csv.
    """

    title: str
    recordings: Mapping[str, ScoredRecordings]
    metrics: Mapping[str, Any]
    history: Path | None = None

    @property
    def judged(self) -> str:
        return list(self.recordings)[-1]

    @property
    def tables(self) -> Mapping[str, Any]:
        """The judged split's entry of metrics.json."""
        tables: Mapping[str, Any] = self.metrics[self.judged]
        return tables
