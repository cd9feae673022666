"""The page on two models: the numbers of both, and the recordings on which they differ most."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakdet.core.files import write_whole
from leakdet.evaluation.comparison import disagreements
from leakdet.evaluation.coverage import REASONS
from leakdet.evaluation.scored_recordings import ScoredRecordings, decision_name
from leakdet.reporting.conclusion import own_verdict
from leakdet.reporting.pages import filled, split_words
from leakdet.reporting.recording_card import Card, cards_with_media

MOST = 20  # recordings that are shown


@dataclass(frozen=True)
class ComparedModel:
    """A model of the comparison: its recordings, metrics.json, and the place of its report."""

    recordings: ScoredRecordings
    metrics: Mapping[str, Any]
    report: str

    def verdict_on(self, row: int) -> dict[str, Any]:
        """The verdict on a recording, its score, and whether it is right; by side if undecided."""
        reasons = self.recordings.reason
        return {
            "reason": "" if reasons is None else REASONS.get(str(reasons[row]), ""),
            "decision": decision_name(bool(self.recordings.decision[row])),
            "score": float(self.recordings.score[row]),
            "threshold": float(self.recordings.threshold[row]),
            "right": not bool(self.recordings.wrong[row]),
        }


@dataclass(frozen=True)
class Disagreement:
    """A recording on which two models differ, with the verdict of each."""

    recording: str
    label: str
    differ: bool  # in the verdict too
    verdicts: Sequence[Mapping[str, Any]]
    card: Card | None  # of the first model: its picture and sound


def write_comparison(path: Path, a: ComparedModel, b: ComparedModel) -> None:
    """Write the page atomically; both models have the `comparison` in their metrics."""
    comparison = a.metrics["comparison"]
    content = {
        "comparison": comparison,
        "names": comparison["names"],
        "judged_on": split_words(comparison["split"]),
        "models": [
            {"name": name, "path": path_of, "report": model.report, **own_verdict(model.metrics)}
            for name, path_of, model in zip(
                comparison["names"], (comparison["a"], comparison["b"]), (a, b), strict=True
            )
        ],
        "rows": _rows(a, b),
    }
    write_whole(path, filled("comparison.html.j2", content), errors="backslashreplace")


def _rows(a: ComparedModel, b: ComparedModel) -> list[Disagreement]:
    chosen = disagreements(a.recordings, b.recordings, MOST)
    cards = dict(cards_with_media(a.recordings, {row: "" for row, _, _ in chosen}))
    return [
        Disagreement(
            str(a.recordings.recording_id[row]),
            str(a.recordings.label[row]),
            differ,
            (a.verdict_on(row), b.verdict_on(other)),
            cards.get(row),
        )
        for row, other, differ in chosen
    ]
