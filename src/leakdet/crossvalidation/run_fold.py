"""One fold of a cross-validation: train as `leakdet.train` does, then score recordings whose group was held out."""

import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from leakdet.config import CrossvalConfig, ProtocolConfig, TrainConfig
from leakdet.crossvalidation.folds import (
    LABEL,
    RECORDING,
    Fold,
    chosen_rows,
    group_keys_of,
    make_folds,
)
from leakdet.detection.decision import fit_rule
from leakdet.evaluation.split_scores import score_split
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.views import SplitView
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import best_checkpoint, fit

FEW_GROUPS, FOLDS = 20, 10  # folds=null: leave one out up to so many groups, so many folds beyond


@dataclass(frozen=True)
class Task:
    """A fold to be run: its rows count in `view`, all recordings of the store under the labels of this repeat."""

    protocol: str
    seed: int
    number: int
    fold: Fold
    # [R] of str over the whole view; blank where the protocol leaves a recording out
    groups: np.ndarray
    view: SplitView
    is_leak: np.ndarray  # bool [R]

    @property
    def file_name(self) -> str:
        """Where the outcome is kept."""
        name = re.sub(r"[^\w.-]", "_", self.protocol)
        return f"{name}.seed{self.seed}.fold{self.number:03}.json"


def all_tasks(config: CrossvalConfig, view: SplitView, leak_label: str) -> list[Task]:
    """Every fold of every repeat of every protocol, in the order in which they are run.

    Raises:
        InputError: a protocol cannot be carried out with these recordings; nothing has been trained then.
    """
    tasks = []
    for name, protocol in config.crossval.by_name().items():
        groups = protocol_groups(protocol, view, name)
        for seed in range(config.seed, config.seed + config.crossval.repeats):
            seen = view.with_shuffled_labels(seed) if config.data.shuffle_labels else view
            is_leak = seen.label_id == seen.label_names.index(leak_label)
            count = _folds(protocol, groups)
            made = make_folds(groups, is_leak, count, config.crossval.val_fraction, seed)
            tasks += [
                Task(name, seed, number, fold, groups, seen, is_leak)
                for number, fold in enumerate(made)
            ]
    return tasks


def protocol_groups(protocol: ProtocolConfig, view: SplitView, name: str) -> np.ndarray:
    """The group of every recording, [R] of str; blank where the protocol leaves it out."""
    columns = {**view.groups, LABEL: np.array(view.label_names)[view.label_id]}
    keys = group_keys_of(
        columns, protocol.group_by, view.recording_ids, f"{name}: crossval.group_by"
    )
    if protocol.where:
        kept = chosen_rows(columns, protocol.where, f"{name}: crossval.where")
        left_out = np.ones(len(keys), bool)
        left_out[kept] = False
        keys = np.where(left_out, "", keys)
    return keys


def _folds(protocol: ProtocolConfig, groups: np.ndarray) -> int:
    if protocol.folds is not None:
        return protocol.folds
    return 0 if len(np.unique(groups[groups != ""])) <= FEW_GROUPS else FOLDS


def run_fold(config: CrossvalConfig, store: Path, task: Task, folder: Path) -> dict[str, Any]:
    """Train, choose and fit the threshold on the fold's own validation part, then score what was held out.

    Returns plain values: the fold, its rule, and score and window probabilities of the held-out recordings by their id.
    """
    started = time.monotonic()
    settings = _fold_settings(config, task.seed)
    train, val = task.view.take(task.fold.train, "train"), task.view.take(task.fold.val, "val")
    test = task.view.take(task.fold.test, "test")
    folder.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".training-", dir=folder))
    try:
        data = LeakDataModule(settings, store, train, val)
        trainer = fit(settings, data, work)
        best = load_mel_detector(best_checkpoint(trainer))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    heard = score_split(best, val, data.leak_label)
    rule = fit_rule(
        heard.window_prob,
        val.recording_offsets,
        data.val_is_leak,
        settings.decision,
        fitted_on="val",
    )
    window_prob = score_split(best, test, data.leak_label).window_prob
    scores = rule.score(window_prob, test.recording_offsets)
    windows = np.split(window_prob.astype(np.float64).round(5), test.recording_offsets[1:-1])
    return {
        "protocol": task.protocol,
        "seed": task.seed,
        "fold": task.fold.name,
        "recordings": {"train": train.recordings, "val": val.recordings, "test": test.recordings},
        "validated_by": task.fold.val_by,
        "decision_rule": rule.to_json(),
        "best_epoch": best.card["training"]["epoch"],
        "steps": trainer.global_step,
        "seconds": round(time.monotonic() - started, 2),
        "scores": dict(zip(test.recording_ids.tolist(), scores.tolist(), strict=True)),
        "windows": {
            name: part.tolist()
            for name, part in zip(test.recording_ids.tolist(), windows, strict=True)
        },
    }


def _fold_settings(config: CrossvalConfig, seed: int) -> TrainConfig:
    """A training without anything to look at; shuffled labels are in the view already."""
    plain = config.training(seed)
    trainer = {**plain.trainer, "enable_progress_bar": False, "num_sanity_val_steps": 0}
    return replace(
        plain, trainer=trainer, logger={}, data=replace(plain.data, shuffle_labels=False)
    )


def described(config: CrossvalConfig) -> Iterator[str]:
    """One line a protocol: what it holds out."""
    for name, protocol in config.crossval.by_name().items():
        what = "recordings" if protocol.group_by == [RECORDING] else " x ".join(protocol.group_by)
        where = "".join(
            f", {column} {'|'.join(values)}" for column, values in protocol.where.items()
        )
        yield f"{name}: holds out {what}{where}"
