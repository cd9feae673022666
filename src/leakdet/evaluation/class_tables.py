"""Metrics of a multiclass model by class, with intervals: true by predicted class."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from leakdet.detection.labels import LabelMap, LabelView
from leakdet.evaluation.intervals import (
    Resampling,
    f1_interval,
    percentile_interval,
    resampling,
    resampling_note,
    wilson,
)
from leakdet.evaluation.metrics import ratio

OF_A_CLASS = ("recall", "precision", "f1")
NO_CLASS = -1
NOTHING = "no recording has a label that is a class of the model"


@dataclass(frozen=True)
class ClassScores:
    """Probability of each class for R recordings, and their true class; -1: the model has none."""

    labels: LabelMap
    prob: Float[np.ndarray, "R C"]
    true: Int[np.ndarray, " R"]

    @property
    def predicted(self) -> Int[np.ndarray, " R"]:
        """The most probable class, whatever the threshold of the leak probability."""
        return np.asarray(self.prob.argmax(axis=1))

    def row(self, index: int) -> dict[str, Any]:
        """The columns `class` and `prob_<label>` of one recording."""
        names, prob = self.labels.names, self.prob[index]
        probs = {f"prob_{name}": round(float(p), 6) for name, p in zip(names, prob, strict=True)}
        return {"class": names[int(prob.argmax())], **probs}


def true_classes(
    labels: LabelMap, view: LabelView, label_id: Int[np.ndarray, " R"]
) -> Int[np.ndarray, " R"]:
    """The network's class of recordings under a label view; -1 for labels that it does not know."""
    known = [NO_CLASS if i is None else i for i in labels.known_class_ids(view)]
    return np.asarray(np.array(known, np.int64)[label_id])


def class_table(
    scores: ClassScores,
    label: Shaped[np.ndarray, " R"],
    units: Shaped[np.ndarray, " R"] | None = None,
    replicates: int = 2000,
) -> dict[str, Any]:
    """The entry `classes` of a split in metrics.json: confusion matrix and metrics, with intervals.

    Recordings of a `label` that is no class of the model are left out and counted. Intervals are
    percentile bootstraps of whole `units`, as those of the other metrics; Wilson's where all
    replicates are alike, or most leave the number undefined.
    """
    labels, known = scores.labels, scores.true != NO_CLASS
    size = len(labels.names)
    cell = (scores.true * size + scores.predicted)[known]
    confusion = np.bincount(cell, minlength=size * size).reshape(1, size, size)
    plan = resampling(len(cell), None if units is None else units[known])
    found = {key: values[0] for key, values in class_rates(confusion).items()}
    drawn = _replicates(cell, size, plan, replicates) if plan.units > 1 else {}
    note = resampling_note(plan, [], replicates) if drawn else plan.none_drawn
    counts = confusion[0]
    return {
        "n": len(cell),
        "left_out": dict(Counter(label[~known].tolist())),
        "confusion": counts.tolist(),
        **_shares(counts, found["shares"], drawn),
        **_overall(counts, found, drawn, note),
        "classes": [
            {"name": name, "leak": index in labels.leaks, **_one_class(counts, index, found, drawn)}
            for index, name in enumerate(labels.names)
        ],
    }


def class_rates(confusion: Shaped[np.ndarray, "B C C"]) -> dict[str, np.ndarray]:
    """Metrics of B confusion matrices, true class by predicted class; NaN where undefined.

    `shares` [B, C, C] of each true class, `recall`, `precision` and `f1` [B, C] of each class,
    `accuracy` and `macro_f1` [B]. As that of torchmetrics and scikit-learn, macro F1 is the mean of
    F1 over the classes that occur or are predicted.
    """
    true, predicted = confusion.sum(axis=2), confusion.sum(axis=1)
    hits = np.diagonal(confusion, axis1=1, axis2=2)
    f1 = ratio(2.0 * hits, true + predicted)
    without = true == 0
    return {
        "shares": ratio(confusion, true[:, :, None]),
        "recall": ratio(hits, true),
        "precision": np.where(without, np.nan, ratio(hits, predicted)),
        "f1": np.where(without, np.nan, f1),
        "accuracy": ratio(hits.sum(axis=1), true.sum(axis=1)),
        "macro_f1": ratio(np.nan_to_num(f1).sum(axis=1), (true + predicted > 0).sum(axis=1)),
    }


def class_sentence(table: Mapping[str, Any]) -> str:
    """A sentence on how well the classes are told apart."""
    if not table["n"]:
        return NOTHING
    told = [
        f"{row['name']} {table['confusion'][index][index]} of {row['n']}"
        for index, row in enumerate(table["classes"])
        if row["n"]
    ]
    absent = [row["name"] for row in table["classes"] if not row["n"]]
    low, high = table["intervals"]["macro_f1"] or (None, None)
    interval = "" if low is None else f" [{low:.2f}, {high:.2f}]"
    text = f"macro F1 {table['macro_f1']:.4f}{interval}; told right: {', '.join(told)}"
    return f"{text}; no recordings: {', '.join(absent)}" if absent else text


def _replicates(
    cell: np.ndarray, size: int, plan: Resampling, replicates: int
) -> dict[str, np.ndarray]:
    """`class_rates` of every replicate of a bootstrap."""
    is_cell = cell[:, None] == np.arange(size * size)
    return class_rates(plan.sums(is_cell, replicates).reshape(-1, size, size))


def _shares(
    counts: np.ndarray, shares: np.ndarray, drawn: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Each cell as a share of its true class, with an interval; null in rows without recordings."""
    cells = [
        [
            _interval(drawn, ("shares", row, column), wilson(int(counts[row, column]), int(total)))
            for column in range(len(counts))
        ]
        for row, total in enumerate(counts.sum(axis=1))
    ]
    plain = [[_plain(value) for value in row] for row in shares]
    return {"shares": plain, "share_intervals": cells}


def _overall(
    counts: np.ndarray,
    found: Mapping[str, Any],
    drawn: Mapping[str, np.ndarray],
    note: str | None,
) -> dict[str, Any]:
    n, right = int(counts.sum()), int(np.trace(counts))
    each = [interval for row in range(len(counts)) if (interval := _f1_alike(counts, row))]
    macro = [float(end) for end in np.mean(each, axis=0)] if each else None
    return {
        "accuracy": _plain(found["accuracy"]),
        "macro_f1": _plain(found["macro_f1"]),
        "undefined": {} if n else dict.fromkeys(("accuracy", "macro_f1"), NOTHING),
        "intervals": {
            "accuracy": _interval(drawn, ("accuracy",), wilson(right, n)),
            "macro_f1": _interval(drawn, ("macro_f1",), macro),
            "note": note,
        },
    }


def _one_class(
    counts: np.ndarray, index: int, found: Mapping[str, Any], drawn: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    n, predicted = int(counts[index].sum()), int(counts[:, index].sum())
    hits = int(counts[index, index])
    alike = {
        "recall": wilson(hits, n),
        "precision": wilson(hits, predicted),
        "f1": _f1_alike(counts, index),
    }
    undefined = {} if predicted else {"precision": "no recording is called so"}
    if not n:
        undefined = dict.fromkeys(OF_A_CLASS, "no recording of this class")
    rates = {key: _plain(found[key][index]) for key in OF_A_CLASS}
    intervals = {
        key: None if key in undefined else _interval(drawn, (key, index), alike[key])
        for key in OF_A_CLASS
    }
    return {
        "n": n,
        "predicted": predicted,
        **rates,
        "intervals": intervals,
        "undefined": undefined,
    }


def _f1_alike(counts: np.ndarray, index: int) -> list[float] | None:
    """Interval of a class's F1 where all replicates are alike; None without its recordings."""
    hits, n = int(counts[index, index]), int(counts[index].sum())
    return f1_interval(hits, n + int(counts[:, index].sum()) - 2 * hits) if n else None


def _interval(
    drawn: Mapping[str, np.ndarray], key: Sequence[Any], alike: list[float] | None
) -> list[float] | None:
    """The bootstrap's interval of one number; `alike` where it has none, or one of no width."""
    if not drawn or alike is None:
        return None
    name, *place = key
    interval = percentile_interval(drawn[name][(slice(None), *place)])
    return alike if interval is None or interval[0] == interval[1] else interval


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
