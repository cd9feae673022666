"""The outcome of a cross-validation: pooled predictions, their metrics and the shortcut audit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from leakdet.crossvalidation.folds import Fold
from leakdet.detection.labels import LabelMap
from leakdet.evaluation.audit import audit_table, baseline_scores, duplicates
from leakdet.evaluation.audit_findings import auroc_with_interval
from leakdet.evaluation.class_tables import ClassScores, class_table
from leakdet.evaluation.intervals import FEW_GROUPS
from leakdet.evaluation.metrics import auroc
from leakdet.evaluation.metrics_json import metric_table
from leakdet.evaluation.null_run import baseline_aurocs, null_result, permuted_labels
from leakdet.evaluation.scored_recordings import decision_name
from leakdet.evaluation.traits import Traits
from leakdet.storage.labelled_split import view_of
from leakdet.storage.views import SplitView

REPLICATES = 1000
# of a fold file
NOT_IN_METRICS = ("scores", "windows", "class_prob", "decision_rule", "protocol")


@dataclass(frozen=True)
class Outcome:
    """One fold that was run, with the groups and labels of the whole store."""

    fold: Fold
    groups: Shaped[np.ndarray, " R"]
    is_leak: Bool[np.ndarray, " R"]
    result: dict[str, Any]  # as `run_fold` returns it
    label_id: Int[np.ndarray, " R"] | None = None  # needed where classes are told

    def window_prob(self, view: SplitView) -> Float[np.ndarray, " W"]:
        """Leak probability of every window of the held-out recordings, ordered as `fold.test`."""
        windows = self._held_out(view, "windows")
        return np.concatenate([np.asarray(of_one, np.float64) for of_one in windows])

    def scores(self, view: SplitView) -> Float[np.ndarray, " C"]:
        """Scores of the held-out recordings, in the order of `fold.test`."""
        return np.array(self._held_out(view, "scores"))

    def class_prob(self, view: SplitView) -> Float[np.ndarray, "N C"] | None:
        """Class probabilities of the held-out recordings; None where only leaks are told."""
        if "class_prob" not in self.result:
            return None
        return np.array(self._held_out(view, "class_prob"))

    def _held_out(self, view: SplitView, key: str) -> list[Any]:
        """Values that the fold's result has under `key` of each held-out recording."""
        return [self.result[key][name] for name in view.recording_ids[self.fold.test].tolist()]

    @property
    def threshold(self) -> float:
        return float(self.result["decision_rule"]["threshold"])


@dataclass(frozen=True)
class PooledPredictions:
    """Held-out predictions of a protocol, one row per recording and repeat."""

    row: Int[np.ndarray, " N"]
    seed: Int[np.ndarray, " N"]
    fold: Shaped[np.ndarray, " N"]
    group: Shaped[np.ndarray, " N"]
    score: Float[np.ndarray, " N"]
    threshold: Float[np.ndarray, " N"]
    is_leak: Bool[np.ndarray, " N"]
    label: Shaped[np.ndarray, " N"]
    classes: ClassScores | None = None

    @classmethod
    def of(cls, outcomes: Sequence[Outcome], view: SplitView) -> "PooledPredictions":
        """Join the folds of one protocol."""
        counts = [len(outcome.fold.test) for outcome in outcomes]
        rows = np.concatenate([outcome.fold.test for outcome in outcomes])
        return cls(
            row=rows,
            seed=np.repeat([outcome.result["seed"] for outcome in outcomes], counts),
            fold=np.repeat([str(outcome.result["fold"]) for outcome in outcomes], counts),
            group=outcomes[0].groups[rows],
            score=np.concatenate([outcome.scores(view) for outcome in outcomes]),
            threshold=np.repeat([outcome.threshold for outcome in outcomes], counts),
            is_leak=np.concatenate([outcome.is_leak[outcome.fold.test] for outcome in outcomes]),
            label=np.array(view.label_names)[view.label_id[rows]],
            classes=_classes(outcomes, view),
        )


def _classes(outcomes: Sequence[Outcome], view: SplitView) -> ClassScores | None:
    """The classes that the folds tell; None of binary ones."""
    parts = [
        (prob, outcome.label_id[outcome.fold.test])
        for outcome in outcomes
        if (prob := outcome.class_prob(view)) is not None and outcome.label_id is not None
    ]
    if len(parts) < len(outcomes):
        return None
    prob, true = (np.concatenate(part) for part in zip(*parts, strict=True))
    return ClassScores(LabelMap.of_view(view_of(view), "multiclass"), prob, true)


def protocol_result(
    outcomes: Sequence[Outcome], view: SplitView, traits: Traits, shuffled: bool
) -> dict[str, Any]:
    """Pooled metrics with intervals, a row per fold, and the audit, as in metrics.json.

    Whole groups are resampled where there are at least 10; otherwise recordings with all their
    repeats.
    """
    pooled = PooledPredictions.of(outcomes, view)
    by_group = len(np.unique(pooled.group)) >= FEW_GROUPS
    units = pooled.group if by_group else pooled.row
    table = metric_table(pooled.score, pooled.is_leak, pooled.threshold, units, REPLICATES)
    table["intervals"]["unit"] = "group" if by_group else "recording"
    fitted_and_tested = [(outcome.fold.fitted, outcome.fold.test) for outcome in outcomes]
    copies = sum(int(duplicates(traits, *rows).sum()) for rows in fitted_and_tested)
    fold_scores = [
        baseline_scores(traits, outcome.is_leak, *rows)
        for outcome, rows in zip(outcomes, fitted_and_tested, strict=True)
    ]
    baselines = {
        name: auroc_with_interval(
            np.concatenate([scores[name] for scores in fold_scores]), pooled.is_leak, units
        )
        for name in fold_scores[0]
    }
    network = auroc_with_interval(pooled.score, pooled.is_leak, units)
    of_repeat = {str(seed): pooled.seed == seed for seed in np.unique(pooled.seed).tolist()}
    aurocs = {
        seed: auroc(pooled.score[rows], pooled.is_leak[rows]) for seed, rows in of_repeat.items()
    }
    null = _null_run(outcomes, aurocs.values(), traits) if shuffled else None
    classes = {}
    if pooled.classes is not None:
        told = class_table(pooled.classes, pooled.label, units, REPLICATES)
        told["intervals"]["unit"] = table["intervals"]["unit"]
        classes["classes"] = told
    return {
        "recording": table,
        **classes,
        "auroc_of_repeats": aurocs,
        "folds": [_fold_row(outcome, view) for outcome in outcomes],
        "audit": audit_table(network, baselines, traits, copies, len(pooled.row), null),
    }


def _null_run(
    outcomes: Sequence[Outcome], aurocs: Iterable[float | None], traits: Traits
) -> dict[str, Any] | None:
    """The null run of repeats with labels permuted over the whole store, one a repeat."""
    told = [area for area in aurocs if area is not None]
    if not told:
        return None
    first = [
        outcome for outcome in outcomes if outcome.result["seed"] == outcomes[0].result["seed"]
    ]
    labels = permuted_labels(first[0].is_leak, [np.arange(len(first[0].is_leak))])
    folds = [(outcome.fold.fitted, outcome.fold.test) for outcome in first]
    return null_result(told, baseline_aurocs(traits.spectrum, labels, folds))


def _fold_row(outcome: Outcome, view: SplitView) -> dict[str, Any]:
    is_leak = outcome.is_leak[outcome.fold.test]
    plain = {key: value for key, value in outcome.result.items() if key not in NOT_IN_METRICS}
    return plain | {
        "leaks": int(is_leak.sum()),
        "threshold": outcome.threshold,
        "auroc": auroc(outcome.scores(view), is_leak),
    }


def prediction_rows(
    protocol: str, pooled: PooledPredictions, view: SplitView
) -> list[dict[str, Any]]:
    """One row per recording and repeat, as in predictions.csv."""
    rows = []
    for index, row in enumerate(pooled.row.tolist()):
        score, threshold = float(pooled.score[index]), float(pooled.threshold[index])
        rows.append(
            {
                "protocol": protocol,
                "seed": int(pooled.seed[index]),
                "fold": str(pooled.fold[index]),
                "recording_id": str(view.recording_ids[row]),
                "label": str(pooled.label[index]),
                "is_leak": int(pooled.is_leak[index]),
                "decision": decision_name(score >= threshold),
                "leak_prob": score,
                "threshold": threshold,
                **(pooled.classes.row(index) if pooled.classes else {}),
                **{column: str(values[row]) for column, values in view.groups.items()},
            }
        )
    return rows
