"""The outcome of a cross-validation: the predictions pooled over its folds, and the tables that come of those."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from leakdet.crossvalidation.folds import Fold
from leakdet.evaluation.audit import audit_table, baseline_scores, duplicates
from leakdet.evaluation.audit_findings import ranked, resampling_groups
from leakdet.evaluation.intervals import FEW_GROUPS, bootstrap_intervals
from leakdet.evaluation.metrics import COUNTS, RATES, auroc, binary_metrics
from leakdet.evaluation.traits import Traits
from leakdet.storage.views import SplitView

HIDDEN = ("scores", "windows", "decision_rule", "protocol")  # of a fold file, in the list of folds
DECIDED = (
    *COUNTS,
    "accuracy",
    "balanced_accuracy",
    "precision",
    "recall",
    "specificity",
    "fpr",
    "f1",
)


@dataclass(frozen=True)
class Outcome:
    """One fold that was run, with the rows (over the whole store) and labels that it was run on."""

    fold: Fold
    groups: np.ndarray  # [R] of str
    is_leak: Bool[np.ndarray, " R"]
    found: dict[str, Any]  # as `training.crossvalidation.run_fold` gives it

    def window_prob(self, view: SplitView) -> Float[np.ndarray, " W"]:
        """Leak probability of every window of the held-out recordings, in the order of `fold.test`."""
        names = view.recording_ids[self.fold.test].tolist()
        return np.concatenate(
            [np.asarray(self.found["windows"][name], np.float64) for name in names]
        )

    def scores(self, view: SplitView) -> Float[np.ndarray, " C"]:
        """Scores of the held-out recordings, in the order of `fold.test`."""
        return np.array(
            [self.found["scores"][name] for name in view.recording_ids[self.fold.test].tolist()]
        )


@dataclass(frozen=True)
class Pooled:
    """Held-out predictions of a protocol over its folds and repeats, one row per recording and repeat."""

    row: Int[np.ndarray, " N"]
    seed: Int[np.ndarray, " N"]
    fold: list[str]
    group: np.ndarray
    score: Float[np.ndarray, " N"]
    threshold: Float[np.ndarray, " N"]
    is_leak: Bool[np.ndarray, " N"]

    @classmethod
    def of(cls, outcomes: Sequence[Outcome], view: SplitView) -> "Pooled":
        """Join the folds of one protocol."""
        counts = [len(outcome.fold.test) for outcome in outcomes]
        rows = np.concatenate([outcome.fold.test for outcome in outcomes])
        return cls(
            row=rows,
            seed=np.repeat([outcome.found["seed"] for outcome in outcomes], counts),
            fold=[
                str(o.found["fold"])
                for o, count in zip(outcomes, counts, strict=True)
                for _ in range(count)
            ],
            group=outcomes[0].groups[rows],
            score=np.concatenate([outcome.scores(view) for outcome in outcomes]),
            threshold=np.repeat(
                [float(o.found["decision_rule"]["threshold"]) for o in outcomes], counts
            ),
            is_leak=np.concatenate([outcome.is_leak[outcome.fold.test] for outcome in outcomes]),
        )


def protocol_result(
    outcomes: Sequence[Outcome], view: SplitView, traits: Traits, shuffled: bool
) -> dict[str, Any]:
    """Metrics of the pooled predictions with intervals, what each fold did, and the audit, as plain values."""
    pooled = Pooled.of(outcomes, view)
    units = resampling_groups(pooled.group, pooled.row)
    copies = sum(int(duplicates(traits, *_heard_and_held_out(o.fold)).sum()) for o in outcomes)
    scored = [baseline_scores(traits, o.is_leak, *_heard_and_held_out(o.fold)) for o in outcomes]
    baselines = {
        name: ranked(np.concatenate([scores[name] for scores in scored]), pooled.is_leak, units)
        for name in scored[0]
    }
    network = ranked(pooled.score, pooled.is_leak, units)
    table = pooled_metrics(pooled, units)
    table["intervals"]["unit"] = (
        "group" if len(np.unique(pooled.group)) >= FEW_GROUPS else "recording"
    )
    return {
        "recording": table,
        "auroc_of_repeats": {
            str(s): _auroc(pooled, pooled.seed == s) for s in np.unique(pooled.seed).tolist()
        },
        "folds": [_fold_row(outcome, view) for outcome in outcomes],
        "audit": audit_table(network, baselines, traits, copies, len(pooled.row), shuffled),
    }


def _heard_and_held_out(fold: Fold) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([fold.train, fold.val]), fold.test


def _auroc(pooled: Pooled, rows: np.ndarray) -> float | None:
    return auroc(pooled.score[rows], pooled.is_leak[rows])


def _fold_row(outcome: Outcome, view: SplitView) -> dict[str, Any]:
    plain = {key: value for key, value in outcome.found.items() if key not in HIDDEN}
    scores, truth = outcome.scores(view), outcome.is_leak[outcome.fold.test]
    threshold = float(outcome.found["decision_rule"]["threshold"])
    return plain | {
        "leaks": int(truth.sum()),
        "threshold": threshold,
        "auroc": auroc(scores, truth),
    }


def pooled_metrics(pooled: Pooled, units: np.ndarray) -> dict[str, Any]:
    """`binary_metrics` with intervals: what ranks is read off the scores, what decides off each fold's own threshold."""
    # at least 0 exactly where the score reaches the threshold
    margin = pooled.score - pooled.threshold
    ranks = binary_metrics(pooled.score, pooled.is_leak, 0.5)
    decides = binary_metrics(margin, pooled.is_leak, 0.0, probabilities=False)
    table = ranks | {key: decides[key] for key in DECIDED}
    reasons = {k: why for k, why in ranks["undefined"].items() if k not in DECIDED}
    table["undefined"] = reasons | {
        k: why for k, why in decides["undefined"].items() if k in DECIDED
    }
    decided, ranking = [k for k in RATES if k in DECIDED], [k for k in RATES if k not in DECIDED]
    table["intervals"] = bootstrap_intervals(
        pooled.score, pooled.is_leak, 0.5, units, replicates=1000, only=ranking
    )
    of_decisions = bootstrap_intervals(
        margin, pooled.is_leak, 0.0, units, replicates=1000, probabilities=False, only=decided
    )
    table["intervals"] |= {key: of_decisions[key] for key in decided}
    return table


def prediction_rows(protocol: str, pooled: Pooled, view: SplitView) -> list[dict[str, Any]]:
    """One row per recording and repeat, as in predictions.csv; `write_predictions` writes them."""
    rows = []
    for place, row in enumerate(pooled.row.tolist()):
        score, threshold = float(pooled.score[place]), float(pooled.threshold[place])
        rows.append(
            {
                "protocol": protocol,
                "seed": int(pooled.seed[place]),
                "fold": pooled.fold[place],
                "recording_id": str(view.recording_ids[row]),
                "label": view.label_names[view.label_id[row]],
                "is_leak": int(pooled.is_leak[place]),
                "decision": "leak" if score >= threshold else "no_leak",
                "leak_prob": score,
                "threshold": threshold,
                **{column: str(found[row]) for column, found in view.groups.items()},
            }
        )
    return rows
