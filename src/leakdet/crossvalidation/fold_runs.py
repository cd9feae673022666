"""The folds of a cross-validation: trained, scored, kept as files, pooled."""

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from leakdet.config import CrossvalConfig, ProtocolConfig, TrainConfig
from leakdet.config.fields import differences
from leakdet.core.errors import InputError, first_few
from leakdet.core.files import locked, read_json, write_json
from leakdet.crossvalidation.folds import (
    LABEL,
    Fold,
    make_folds,
    select_rows,
)
from leakdet.detection.labels import LabelMap
from leakdet.evaluation.audit import (
    audit_table,
    baseline_aurocs,
    baseline_scores,
    duplicates,
    null_result,
    permuted_labels,
)
from leakdet.evaluation.class_tables import ClassScores, class_table
from leakdet.evaluation.coverage import coverage_table
from leakdet.evaluation.intervals import FEW_GROUPS, REPLICATES, auroc_with_interval
from leakdet.evaluation.met import training_rates
from leakdet.evaluation.metrics import auroc
from leakdet.evaluation.metrics_json import metric_table, metrics_content, widen_degenerate
from leakdet.evaluation.scored_recordings import decision_name
from leakdet.evaluation.split_scores import score_split
from leakdet.evaluation.traits import Traits
from leakdet.storage.folds import RECORDING, group_keys, source_files
from leakdet.storage.views import SplitView, view_of
from leakdet.tables.write import write_csv
from leakdet.training.callbacks.progress import EpochReport
from leakdet.training.scratch import quiet, train_bare
from leakdet.training.settings import needs_val
from leakdet.training.sounds import why_not_synthetic

POOLED = ".pooled"  # the folds whose tables and reports are written; locked while they are
FOLD_KEYS = ("fold", "seed", "scores", "reasons", "windows", "decision_rule")


def write_fold(path: Path, outcome: Mapping[str, Any]) -> None:
    """Write the outcome of a fold atomically: a fold file that exists is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, outcome, seal=True)


def read_fold(path: Path) -> dict[str, Any]:
    """Read the outcome of a fold. Raises `InputError` where the file holds none."""
    remedy = "Remove it, and it is run again."
    outcome = read_json(path, "the outcome of a fold", remedy)
    lacking = [name for name in FOLD_KEYS if name not in outcome]
    if lacking:
        raise InputError(
            f"{path}: not the outcome of a fold (it lacks {', '.join(lacking)}). {remedy}"
        )
    return outcome


def record_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write crossval.json. Raises `InputError` where the folder has folds of other settings."""
    path = folder / "crossval.json"
    plain = json.loads(json.dumps(settings))
    if not path.exists():
        write_fold(path, plain)
        return
    stored = read_json(path, "the settings of a cross-validation", "Choose another crossval.out.")
    differing = [difference.name for difference in differences(stored, plain)]
    if differing:
        raise InputError(
            f"{folder}: its folds were run with other settings ({', '.join(differing)} differ). "
            "Give the same settings to continue it, or another crossval.out."
        )


def pooled_folds(folder: Path) -> str:
    """What `note_pooled` wrote in this folder last; empty where it has not."""
    path = folder / POOLED
    return path.read_text(encoding="utf-8") if path.exists() else ""


def state_of_folds(paths: Iterable[Path]) -> str:
    """Text that changes when a fold is added or run anew."""
    return "".join(f"{path.name} {path.stat().st_mtime_ns}\n" for path in paths)


def note_pooled(folder: Path, state: str) -> None:
    """Note that the tables and reports of these folds are written."""
    (folder / POOLED).write_text(state, encoding="utf-8")


@contextmanager
def pooling(folder: Path) -> Iterator[None]:
    """Let one job after the other pool the folds; all at once where files cannot be locked."""
    with ExitStack() as stack:
        with suppress(OSError):
            stack.enter_context(locked(folder / POOLED))
        yield


def write_tables(
    folder: Path, results: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], **more: Any
) -> dict[str, Any]:
    """Write predictions.csv and metrics.json of all protocols; return the content of the latter.

    `more` are further entries of metrics.json, as the settings. Both files are written atomically.
    """
    write_csv(folder / "predictions.csv", rows)
    content = metrics_content({}, None, [], crossval=results, **more)
    write_json(folder / "metrics.json", content)
    return content


# folds=null leaves one group out up to so many groups, and makes so many folds beyond
MAX_LEAVE_ONE_OUT, DEFAULT_FOLDS = 20, 10


@dataclass(frozen=True)
class Task:
    """A fold to run, its rows in `view`: all recordings, with the labels of this repeat.

    `groups` are those of the whole view, blank where the protocol leaves a recording out.
    """

    protocol: str
    seed: int
    number: int
    fold: Fold
    groups: Shaped[np.ndarray, " R"]
    view: SplitView
    is_leak: Bool[np.ndarray, " R"]

    @property
    def file_name(self) -> str:
        name = re.sub(r"[^\w.-]", "_", self.protocol)
        return f"{name}.seed{self.seed}.fold{self.number:03}.json"


def all_tasks(config: CrossvalConfig, view: SplitView) -> list[Task]:
    """Every fold of every repeat of every protocol, in running order."""
    tasks = []
    for name, protocol in config.crossval.by_name().items():
        groups = protocol_groups(protocol, view, name)
        for seed in range(config.seed, config.seed + config.crossval.repeats):
            labelled = view.with_shuffled_labels(seed) if config.data.shuffle_labels else view
            is_leak = labelled.is_leak
            count = _fold_count(protocol, groups)
            files = source_files(view.groups, view.recording_ids)
            folds = make_folds(groups, is_leak, count, config.crossval.val_fraction, seed, files)
            tasks += [
                Task(name, seed, number, _suited(fold, config), groups, labelled, is_leak)
                for number, fold in enumerate(folds)
            ]
    return tasks


def _suited(fold: Fold, config: CrossvalConfig) -> Fold:
    """The fold, whose validation part trains too where it chooses nothing."""
    return fold if needs_val(config, len(fold.val)) else fold.with_val_in_training()


def protocol_groups(
    protocol: ProtocolConfig, view: SplitView, name: str
) -> Shaped[np.ndarray, " R"]:
    """The group of every recording; blank where the protocol leaves it out."""
    columns = {**view.groups, LABEL: np.array(view.label_names)[view.label_id]}
    setting = f"{name}: crossval.group_by"
    keys = group_keys(columns, protocol.group_by, view.recording_ids, setting)
    if protocol.where:
        selected = select_rows(columns, protocol.where, f"{name}: crossval.where")
        keys = np.where(np.isin(np.arange(len(keys)), selected), keys, "")
    return keys


def without_group(protocol: ProtocolConfig, view: SplitView, name: str) -> list[str]:
    """Recordings that take no part because a group column is blank, by id."""
    everywhere = protocol_groups(replace(protocol, group_by=[RECORDING]), view, name) != ""
    blank = protocol_groups(protocol, view, name) == ""
    return [str(found) for found in view.recording_ids[everywhere & blank]]


def _fold_count(protocol: ProtocolConfig, groups: Shaped[np.ndarray, " R"]) -> int:
    if protocol.folds is not None:
        return protocol.folds
    few = len(np.unique(groups[groups != ""])) <= MAX_LEAVE_ONE_OUT
    return 0 if few else DEFAULT_FOLDS


def run_fold(
    config: CrossvalConfig,
    store: Path,
    task: Task,
    folder: Path,
    report: EpochReport | None = None,
) -> dict[str, Any]:
    """Train, select and fit the threshold without the held-out part, then score it.

    Returns plain values: the fold, its rule, and score, window probabilities and, where classes
    are told, class probabilities of held-out recordings by id.
    """
    started = time.monotonic()
    settings, fold = fold_settings(config, task), task.fold
    train, val = task.view.take(fold.train, "train"), task.view.take(fold.val, "val")
    test = task.view.take(fold.test, "test")
    folder.mkdir(parents=True, exist_ok=True)
    trained = train_bare(settings, store, folder, [report] if report else [], train, val)
    if (rates := training_rates(train)) is not None:
        trained.detector.sources = rates.standing_for(training_rates(task.view))
    rule, held_out = trained.rule, score_split(trained.detector, test)
    window_prob = held_out.window_prob
    scores = rule.score(window_prob, test.recording_offsets)
    classes = held_out.classes(scores)
    windows = np.split(window_prob.astype(np.float64).round(5), test.recording_offsets[1:-1])
    names = test.recording_ids.tolist()
    reasons = rule.undecided(scores, other_source=held_out.other_source)
    return {
        "protocol": task.protocol,
        "seed": task.seed,
        "fold": fold.name,
        "recordings": {
            "train": train.recordings,
            "val": 0 if fold.val_by == "none" else val.recordings,
            "test": test.recordings,
        },
        "validated_by": fold.val_by,
        "decision_rule": rule.to_json(),
        "best_epoch": trained.detector.card["training"]["epoch"],
        "steps": trained.steps,
        "seconds": round(time.monotonic() - started, 2),
        "scores": dict(zip(names, scores.tolist(), strict=True)),
        "reasons": dict(zip(names, reasons.tolist(), strict=True)),
        "windows": dict(zip(names, (part.tolist() for part in windows), strict=True)),
        **({"class_prob": dict(zip(names, classes.prob.tolist(), strict=True))} if classes else {}),
    }


def fold_settings(config: CrossvalConfig, task: Task) -> TrainConfig:
    """A quiet training; the task's labels are shuffled already."""
    plain = quiet(config.training(task.seed))
    negatives = None if why_not_synthetic(config, task.view) else plain.data.negatives
    return replace(plain, data=replace(plain.data, shuffle_labels=False, negatives=negatives))


def protocol_summaries(config: CrossvalConfig, view: SplitView) -> Iterator[str]:
    """A line on what each protocol holds out, and on recordings left out for want of a group."""
    for name, protocol in config.crossval.by_name().items():
        what = "recordings" if protocol.group_by == [RECORDING] else " x ".join(protocol.group_by)
        where = "".join(
            f", {column} {'|'.join(values)}" for column, values in protocol.where.items()
        )
        yield f"{name}: holds out {what}{where}"
        if blank := without_group(protocol, view, name):
            yield f"note     {blank_sentence(blank, protocol.group_by)}"
    if reason := why_not_synthetic(config, view):
        yield f"note     no made-up sounds beside the recordings: {reason} (data.negatives)"


def blank_sentence(recordings: Sequence[str], group_by: Sequence[str]) -> str:
    """A sentence on the recordings that are left out, and the way to include them."""
    count = len(recordings)
    were = "1 recording is" if count == 1 else f"{count} recordings are"
    return (
        f"{were} left out, neither trained on nor scored, because the {' or '.join(group_by)} is "
        f"blank: {first_few(recordings, 3)}. Fill it in where it is known, or hold out by "
        "recording."
    )


# of a fold file
NOT_IN_METRICS = ("scores", "reasons", "windows", "class_prob", "decision_rule", "protocol")


@dataclass(frozen=True)
class FoldResult:
    """A fold that was run: its task, and the plain values that `run_fold` returned."""

    task: Task
    result: dict[str, Any]

    @property
    def fold(self) -> Fold:
        return self.task.fold

    def held_out(self, key: str) -> list[Any]:
        """Values that the result has under `key`, in the order of `fold.test`."""
        names = self.task.view.recording_ids[self.fold.test].tolist()
        return [self.result[key][name] for name in names]

    def window_prob(self) -> Float[np.ndarray, " W"]:
        """Leak probability of every window of the held-out recordings."""
        return np.concatenate([np.asarray(probs, np.float64) for probs in self.held_out("windows")])

    def scores(self) -> Float[np.ndarray, " C"]:
        """Scores of the held-out recordings."""
        return np.array(self.held_out("scores"))

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
    reason: Shaped[np.ndarray, " N"]  # why the recording is undecided, "": it is decided
    is_leak: Bool[np.ndarray, " N"]
    label: Shaped[np.ndarray, " N"]
    classes: ClassScores | None = None

    @classmethod
    def of(cls, folds: Sequence[FoldResult], view: SplitView) -> "PooledPredictions":
        """Join the folds of one protocol."""
        counts = [len(fold.fold.test) for fold in folds]
        rows = np.concatenate([fold.fold.test for fold in folds])
        return cls(
            row=rows,
            seed=np.repeat([fold.result["seed"] for fold in folds], counts),
            fold=np.repeat([str(fold.result["fold"]) for fold in folds], counts),
            group=folds[0].task.groups[rows],
            score=np.concatenate([fold.scores() for fold in folds]),
            threshold=np.repeat([fold.threshold for fold in folds], counts),
            reason=np.concatenate([np.array(fold.held_out("reasons"), str) for fold in folds]),
            is_leak=np.concatenate([fold.task.is_leak[fold.fold.test] for fold in folds]),
            label=np.array(view.label_names)[view.label_id[rows]],
            classes=_classes(folds, view),
        )


def _classes(folds: Sequence[FoldResult], view: SplitView) -> ClassScores | None:
    """The classes that the folds tell; None where one of them tells leaks alone."""
    if not all("class_prob" in fold.result for fold in folds):
        return None
    prob = np.concatenate([np.array(fold.held_out("class_prob")) for fold in folds])
    true = np.concatenate([fold.task.view.label_id[fold.fold.test] for fold in folds])
    return ClassScores(LabelMap.of_view(view_of(view), "multiclass"), prob, true)


def protocol_result(
    folds: Sequence[FoldResult], view: SplitView, traits: Traits, shuffled: bool
) -> dict[str, Any]:
    """Pooled metrics with intervals, a row per fold, and the audit, as in metrics.json.

    Whole groups are resampled where there are at least 10; otherwise recordings with all their
    repeats.
    """
    pooled = PooledPredictions.of(folds, view)
    by_group = len(np.unique(pooled.group)) >= FEW_GROUPS
    repeated = len(np.unique(pooled.row)) < len(pooled.row)
    units = pooled.group if by_group else pooled.row if repeated else None
    table = metric_table(pooled.score, pooled.is_leak, pooled.threshold, units, REPLICATES)
    widen_degenerate(table)
    called = pooled.score >= pooled.threshold
    rows = (pooled.is_leak, called, pooled.reason)
    coverage = coverage_table(*rows, units, REPLICATES, recording=pooled.row)
    for of_all in (table, coverage):
        of_all["intervals"]["unit"] = "group" if by_group else "recording"
    fitted_and_tested = [(fold.fold.fitted, fold.fold.test) for fold in folds]
    copies = sum(int(duplicates(traits, *rows).sum()) for rows in fitted_and_tested)
    fold_scores = [
        baseline_scores(traits, fold.task.is_leak, *rows)
        for fold, rows in zip(folds, fitted_and_tested, strict=True)
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
    null = _null_run(folds, aurocs.values(), traits) if shuffled else None
    classes = {}
    if pooled.classes is not None:
        classes["classes"] = class_table(pooled.classes, pooled.label, units, REPLICATES)
        classes["classes"]["intervals"]["unit"] = table["intervals"]["unit"]
    return {
        "recording": table,
        "coverage": coverage,
        **classes,
        "auroc_of_repeats": aurocs,
        "folds": [_fold_row(fold) for fold in folds],
        "audit": audit_table(network, baselines, traits, copies, len(pooled.row), null),
    }


def _null_run(
    folds: Sequence[FoldResult], aurocs: Iterable[float | None], traits: Traits
) -> dict[str, Any] | None:
    """The null run of repeats with labels permuted over the whole store, one a repeat."""
    defined = [area for area in aurocs if area is not None]
    if not defined:
        return None
    first = [fold for fold in folds if fold.result["seed"] == folds[0].result["seed"]]
    labels = permuted_labels(first[0].task.is_leak, [np.arange(len(first[0].task.is_leak))])
    fitted_and_tested = [(fold.fold.fitted, fold.fold.test) for fold in first]
    return null_result(defined, baseline_aurocs(traits.spectrum, labels, fitted_and_tested))


def _fold_row(fold: FoldResult) -> dict[str, Any]:
    is_leak = fold.task.is_leak[fold.fold.test]
    plain = {key: value for key, value in fold.result.items() if key not in NOT_IN_METRICS}
    return plain | {
        "leaks": int(is_leak.sum()),
        "threshold": fold.threshold,
        "auroc": auroc(fold.scores(), is_leak),
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
                "reason": str(pooled.reason[index]),
                **(pooled.classes.row(index) if pooled.classes else {}),
                **{column: str(values[row]) for column, values in view.groups.items()},
            }
        )
    return rows
