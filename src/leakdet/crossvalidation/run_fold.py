"""One fold of a cross-validation: train as `leakdet train` does, then score held-out groups."""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Shaped

from leakdet.config import CrossvalConfig, ProtocolConfig, TrainConfig
from leakdet.crossvalidation.folds import (
    LABEL,
    RECORDING,
    Fold,
    group_keys,
    make_folds,
    select_rows,
    source_files,
)
from leakdet.errors import first_few
from leakdet.evaluation.split_scores import score_split
from leakdet.storage.views import SplitView
from leakdet.training.bare_training import quiet, train_bare
from leakdet.training.callbacks.progress import EpochReport
from leakdet.training.stopping import needs_val

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
    """Every fold of every repeat of every protocol, in running order.

    Raises:
        InputError: a protocol cannot be carried out with these recordings.
    """
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
    settings, fold = _fold_settings(config, task.seed), task.fold
    train, val = task.view.take(fold.train, "train"), task.view.take(fold.val, "val")
    test = task.view.take(fold.test, "test")
    folder.mkdir(parents=True, exist_ok=True)
    trained = train_bare(settings, store, folder, [report] if report else [], train, val)
    rule, held_out = trained.rule, score_split(trained.detector, test)
    window_prob = held_out.window_prob
    scores = rule.score(window_prob, test.recording_offsets)
    classes = held_out.classes(scores)
    windows = np.split(window_prob.astype(np.float64).round(5), test.recording_offsets[1:-1])
    names = test.recording_ids.tolist()
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
        "windows": dict(zip(names, (part.tolist() for part in windows), strict=True)),
        **({"class_prob": dict(zip(names, classes.prob.tolist(), strict=True))} if classes else {}),
    }


def _fold_settings(config: CrossvalConfig, seed: int) -> TrainConfig:
    """A quiet training; the view's labels are shuffled already."""
    plain = quiet(config.training(seed))
    return replace(plain, data=replace(plain.data, shuffle_labels=False))


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


def blank_sentence(recordings: Sequence[str], group_by: Sequence[str]) -> str:
    """A sentence on the recordings that are left out, and the way to include them."""
    count = len(recordings)
    were = "1 recording is" if count == 1 else f"{count} recordings are"
    return (
        f"{were} left out, neither trained on nor scored, because the {' or '.join(group_by)} is "
        f"blank: {first_few(recordings)}. Fill it in where it is known, or hold out by recording."
    )
