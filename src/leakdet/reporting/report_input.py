"""What a report is made of: plain arrays and the content of metrics.json, whoever computed them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakdet.evaluation.scored_recordings import ScoredRecordings


@dataclass(frozen=True)
class ReportInput:
    """Input of `write_report`.

    `recordings` maps a split or protocol to its scored recordings, `metrics` is the content of metrics.json with a table
    under each of these names (docs/metrics.md). The last split is the one that is judged, the others are shown beside it.
    `learning_curves` is a run's history.csv. Optional entries of `metrics` that are shown where they are given:
    `audit` {"sentence": text or None, "findings": [text, …], "rows": [{"name", "explanation",
    "auroc", "interval"}, …]}, `comparison`
    (`storage.comparing`), `settings`, and whatever else describes the run.
    """

    title: str
    recordings: Mapping[str, ScoredRecordings]
    metrics: Mapping[str, Any]
    learning_curves: Path | None = None

    @property
    def judged(self) -> str:
        return list(self.recordings)[-1]

    @property
    def tables(self) -> Mapping[str, Any]:
        """The judged split's entry of metrics.json."""
        found: Mapping[str, Any] = self.metrics[self.judged]
        return found
