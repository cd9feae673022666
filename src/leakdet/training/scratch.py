"""Trainings that leave nothing on disk: folds of a cross-validation, runs of a null test."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from lightning.pytorch.callbacks import Callback

from leakdet.config import CallbacksConfig, TrainConfig
from leakdet.core.messages import LOG
from leakdet.core.progress import ProgressCounter
from leakdet.detection.decision import DecisionRule, fit_rule
from leakdet.detection.detector import MelDetector
from leakdet.evaluation.metrics import auroc
from leakdet.evaluation.split_scores import score_split
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.store import StoreSplit
from leakdet.training import log_names
from leakdet.training.callbacks.progress import EpochReport
from leakdet.training.callbacks.stopping import Interrupted
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import fit, result_checkpoint


@dataclass(frozen=True)
class BareTraining:
    """The detector that came out, with its rule fitted on val, which scored `val_score` there."""

    detector: MelDetector
    rule: DecisionRule
    val_score: Float[np.ndarray, " R"]
    data: LeakDataModule
    steps: int


def quiet(config: TrainConfig) -> TrainConfig:
    """The same training without progress bar, first check and loggers."""
    trainer = {**config.trainer, "enable_progress_bar": False, "num_sanity_val_steps": 0}
    return replace(config, trainer=trainer, logger={})


def train_bare(
    config: TrainConfig,
    store: Path,
    folder: Path,
    callbacks: Sequence[Callback],
    train: StoreSplit | None = None,
    val: StoreSplit | None = None,
) -> BareTraining:
    """Train on the splits of `store`, or on `train` and `val`, and fit the decision rule on val.

    `folder` holds checkpoints meanwhile and must exist. Raises as `fit` and `result_checkpoint`.
    """
    with tempfile.TemporaryDirectory(
        prefix=".training-", dir=folder, ignore_cleanup_errors=True
    ) as work:
        data = LeakDataModule(config, store, train, val)
        trainer = fit(data, Path(work), callbacks)
        detector = load_mel_detector(result_checkpoint(trainer), trust_network=config.network.name)
    scored = score_split(detector, data.splits.val)
    offsets, decision = scored.split.recording_offsets, data.config.decision
    rule = fit_rule(scored.window_prob, offsets, data.val_is_leak, decision, fitted_on="val")
    score = rule.score(scored.window_prob, offsets)
    return BareTraining(detector, rule, score, data, trainer.global_step)


STOPS = ("early_stopping", "loss_stop")  # the callbacks that change the weights


def further_aurocs(config: TrainConfig, store: Path, folder: Path) -> list[float]:
    """AUROC of the test split, or of val without one, of each training after the first.

    Nothing of them is kept. `folder` is that of the first training, which stays resumable.
    """
    seeds = range(config.seed + 1, config.seed + config.data.shuffle_repeats)
    if not seeds:
        return []
    LOG.info(
        f"null run  {len(seeds)} more trainings, each with another permutation of the labels "
        "(data.shuffle_repeats)"
    )
    aurocs = []
    with ProgressCounter("null run", len(seeds), "trainings", closing=False) as progress:
        epochs = EpochReport(lambda epoch: progress.retitle(f"null run, {epoch}, trainings"))
        for seed in seeds:
            try:
                area = _auroc(_unmonitored(config, seed), store, folder, epochs)
            except Interrupted as stop:
                last = folder / log_names.CHECKPOINTS / f"{log_names.LAST}{log_names.ENDING}"
                raise Interrupted(stop.number, last) from stop
            aurocs += [] if area is None else [area]
            progress.step()
    return aurocs


def _unmonitored(config: TrainConfig, seed: int) -> TrainConfig:
    """The same training under another seed, without anything that only logs or warns."""
    monitors: dict[str, Any] = {
        field.name: False
        for field in fields(CallbacksConfig)
        if field.name not in (*STOPS, "extra")
    }
    callbacks = replace(config.callbacks, **monitors)
    return replace(quiet(config), seed=seed, resume=None, callbacks=callbacks)


def _auroc(config: TrainConfig, store: Path, folder: Path, report: EpochReport) -> float | None:
    trained = train_bare(config, store, folder, [report])
    if trained.data.splits.test is None:
        return auroc(trained.val_score, trained.data.val_is_leak)
    test = score_split(trained.detector, trained.data.splits.test)
    score = trained.rule.score(test.window_prob, test.split.recording_offsets)
    return auroc(score, test.is_leak)
