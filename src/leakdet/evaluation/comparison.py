"""Two models on the same recordings, and a model whose labels differ from the store's."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from leakdet.config import LabelsConfig
from leakdet.core.errors import InputError, counted, first_few
from leakdet.detection.labels import LabelMap, label_key, label_view, renamed
from leakdet.evaluation.intervals import REPLICATES, paired_difference
from leakdet.evaluation.scored_recordings import ScoredRecordings, decision_name
from leakdet.storage.store import StoreSplit


def labels_for(model: LabelMap, split: StoreSplit, given: LabelsConfig) -> LabelsConfig:
    """Label settings under which a model is evaluated on a split, as it was opened.

    What was renamed or left out in training is so here. Leaks are those that are `given`; else
    those of the model, where it knows every label; else those of the store.
    """
    there = {label_key(name) for name in split.label_names}
    known = {label_key(label): name for label, name in model.name_of_label.items()}
    mine = {label_key(name) for name in (*given.rename, *given.ignore)}
    taken_over = {key: name for key, name in known.items() if key in there - mine}
    rename = {key: name for key, name in taken_over.items() if name and label_key(name) != key}
    settings = replace(
        given,
        rename={**rename, **given.rename},
        ignore=[*given.ignore, *(key for key, name in taken_over.items() if name is None)],
    )
    where = str(split.files[0].parent)
    names = {name for name in renamed(split.label_names, settings, where).values() if name}
    leaks_of_model = {label_key(name) for name in model.leak_labels}
    known_names = {label_key(name) for name in known.values() if name is not None}
    leaks = [name for name in sorted(names) if label_key(name) in leaks_of_model]
    if not given.leak and leaks and all(label_key(name) in known_names for name in names):
        settings = replace(settings, leak=leaks)
    view = label_view(split.label_names, settings, where, split.leak_labels, flags=True)
    disputed = [
        name
        for name in view.names
        if label_key(name) in known_names
        and (label_key(name) in leaks_of_model) != (name in view.leaks)
    ]
    if disputed and not given.leak:
        raise InputError(
            f"{where}: model and store disagree on whether {', '.join(disputed)} "
            f"{'means' if len(disputed) == 1 else 'mean'} a leak (model: "
            f"{', '.join(model.leak_labels)}; store: {', '.join(view.leaks)}). Name the leaks: "
            "--leak NAME, once for each."
        )
    return replace(settings, leak=list(view.leaks))


COMPARED = ("accuracy", "f1", "recall", "fpr", "precision", "auroc", "average_precision")
ALPHA = 0.05
FEWEST_COMPARED = 6


def compare(
    a: ScoredRecordings,
    b: ScoredRecordings,
    models: tuple[str, str],
    group_by: Sequence[str] = (),
    replicates: int = REPLICATES,
    names: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """The `comparison` of metrics.json: paired differences, b minus a, McNemar's test, a sentence.

    `models` are paths; `names` name them in words, by default by what tells the paths apart.
    `recordings` is what differs recording by recording, see `recording_differences`.

    Whole groups of `group_by` are resampled where the recordings have them. Raises `InputError`
    where the two were not scored on the same recordings with one threshold each.
    """
    same = np.array_equal(a.recording_id, b.recording_id) and np.array_equal(a.is_leak, b.is_leak)
    if a.one_threshold is None or b.one_threshold is None or not same:
        raise InputError(
            "Only models with one threshold each, scored on the same recordings, can be compared."
        )
    names = names or told_apart(*models)
    units = a.resampling_units(group_by)
    differences = [
        paired_difference(
            a.score,
            b.score,
            a.is_leak,
            metric,
            threshold_a=a.one_threshold,
            threshold_b=b.one_threshold,
            groups=units,
            replicates=replicates,
        )
        for metric in COMPARED
    ]
    test = mcnemar(~a.wrong, ~b.wrong)
    return {
        "a": models[0],
        "b": models[1],
        "names": list(names),
        "split": a.name,
        "n": len(a),
        "unit": "recording" if units is None else "/".join(group_by),
        "differences": differences,
        "mcnemar": test,
        "recordings": recording_differences(a, b),
        "sentence": _sentence(len(a), differences[0], test, names),
    }


def told_apart(a: str, b: str) -> tuple[str, str]:
    """The parts of two paths that tell them apart; A and B where they are the same.

    >>> told_apart("runs/train/one/model.safetensors", "runs/train/two/model.safetensors")
    ('one', 'two')
    >>> told_apart("old.safetensors", "runs/new/model.safetensors")
    ('old.safetensors', 'runs/new/model.safetensors')
    """
    parts_a, parts_b = list(Path(a).parts), list(Path(b).parts)
    if parts_a == parts_b:
        return "A", "B"
    for end in (0, -1):
        while min(len(parts_a), len(parts_b)) > 1 and parts_a[end] == parts_b[end]:
            del parts_a[end], parts_b[end]
    return str(Path(*parts_a)), str(Path(*parts_b))


def recording_differences(a: ScoredRecordings, b: ScoredRecordings) -> dict[str, Any]:
    """How far apart two models are on each of the same recordings, whichever of them is right.

    Returns the `largest` and the `median` difference of leak_prob without its sign, the recording
    `where` it is largest, the `ids` of those with another verdict, the farthest apart first, and
    all that in a `sentence`.
    """
    apart = np.abs(b.score - a.score)
    order = np.argsort(-apart, kind="stable")
    others = order[(a.decision != b.decision)[order]]
    found = {
        "largest": float(apart[order[0]]),
        "median": float(np.median(apart)),
        "where": str(a.recording_id[order[0]]),
        "ids": [str(name) for name in a.recording_id[others]],
    }
    return found | {"sentence": _recordings_sentence(found, len(a))}


def _recordings_sentence(differences: Mapping[str, Any], n: int) -> str:
    """`recording_differences` of n recordings in a sentence.

    >>> _recordings_sentence({"largest": 2e-6, "median": 1e-7, "where": "r1", "ids": []}, 9)
    'Recording by recording, leak_prob differs by at most 2.0e-06 (r1), in the median by 1.0e-07;
    none of 9 verdicts differs.'
    """
    ids = differences["ids"]
    verdicts = f"none of {n} verdicts differs"
    if ids:
        verdicts = f"{len(ids)} of {n} verdicts differ: {first_few(ids)}"
    if not differences["largest"]:
        return f"Recording by recording, leak_prob is the same; {verdicts}."
    return (
        f"Recording by recording, leak_prob differs by at most {differences['largest']:.1e} "
        f"({differences['where']}), in the median by {differences['median']:.1e}; {verdicts}."
    )


def disagreements(
    a: ScoredRecordings, b: ScoredRecordings, most: int
) -> list[tuple[int, int, bool]]:
    """Rows in `a` and `b` of recordings that both have, and whether the verdicts differ.

    Those with different verdicts come first, then the farthest apart; at most `most`, and none that
    both score alike.
    """
    row_of_b = {name: row for row, name in enumerate(b.recording_id.tolist())}
    pairs = [
        (row, row_of_b[name])
        for row, name in enumerate(a.recording_id.tolist())
        if name in row_of_b
    ]
    decisions_a, decisions_b = a.decision.tolist(), b.decision.tolist()
    rows = [(i, j, decisions_a[i] != decisions_b[j]) for i, j in pairs if a.score[i] != b.score[j]]
    rows.sort(key=lambda row: (not row[2], -abs(a.score[row[0]] - b.score[row[1]])))
    return rows[:most]


def recording_rows(a: ScoredRecordings, b: ScoredRecordings) -> Iterator[dict[str, Any]]:
    """The rows of comparison.csv: both models on every recording that both were scored on."""
    row_of_b = {name: row for row, name in enumerate(b.recording_id.tolist())}
    decisions_a, decisions_b = a.decision.tolist(), b.decision.tolist()
    for row, name in enumerate(a.recording_id.tolist()):
        other = row_of_b.get(name)
        if other is None:
            continue
        probs = float(a.score[row]), float(b.score[other])
        verdicts = decision_name(decisions_a[row]), decision_name(decisions_b[other])
        yield {
            "recording_id": name,
            "label": str(a.label[row]),
            "leak_prob_a": round(probs[0], 6),
            "leak_prob_b": round(probs[1], 6),
            "difference": float(f"{probs[1] - probs[0]:.3g}"),
            "decision_a": verdicts[0],
            "decision_b": verdicts[1],
            "same_decision": int(verdicts[0] == verdicts[1]),
        }


def mcnemar(
    correct_a: Bool[np.ndarray, " N"], correct_b: Bool[np.ndarray, " N"]
) -> dict[str, int | float]:
    """McNemar's exact test of whether two models err equally often on the same recordings.

    Returns {"only_a", "only_b", "p_value"}: the recordings that only one model gets right, and the
    two-sided binomial p-value of such an uneven split. Recordings of one site are not independent:
    the p-value is too small there, and `paired_difference` by group is the better guide.
    """
    from scipy.stats import binomtest  # slow to import

    only_a = int(np.count_nonzero(correct_a & ~correct_b))
    only_b = int(np.count_nonzero(correct_b & ~correct_a))
    p_value = float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
    return {"only_a": only_a, "only_b": only_b, "p_value": p_value}


def _sentence(
    n: int, accuracy: Mapping[str, Any], test: Mapping[str, int | float], names: tuple[str, str]
) -> str:
    """Conclude: a difference needs McNemar's p below 0.05 and an interval that excludes 0."""
    if n < FEWEST_COMPARED:  # McNemar's p cannot fall below 0.05
        return f"Too few to compare by: {counted(n, 'recording')}."
    interval = accuracy["interval"]
    sure = test["p_value"] < ALPHA and interval is not None and (interval[0] > 0 or interval[1] < 0)
    better = names[test["only_b"] > test["only_a"]]
    conclusion = f"{better} is better" if sure else "No measurable difference"
    return (
        f"{conclusion}: of {n} recordings, only {names[0]} is right on {test['only_a']} and only "
        f"{names[1]} on {test['only_b']} (McNemar p = {test['p_value']:.2g})."
    )
