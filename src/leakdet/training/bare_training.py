"""A training that leaves nothing on disk: a fold of a cross-validation, a run of a null test."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float
from lightning.pytorch.callbacks import Callback

from leakdet.config import TrainConfig
from leakdet.detection.decision import DecisionRule, fit_rule
from leakdet.detection.detector import MelDetector
from leakdet.evaluation.split_scores import score_split
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.store import StoreSplit
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import fit, result_checkpoint
from leakdet.training.stopping import resolved


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
        trainer = fit(config, data, Path(work), callbacks)
        detector = load_mel_detector(result_checkpoint(trainer), trust_network=config.network.name)
    scored = score_split(detector, data.splits.val)
    offsets, decision = scored.split.recording_offsets, resolved(config, data).decision
    rule = fit_rule(scored.window_prob, offsets, data.val_is_leak, decision, fitted_on="val")
    score = rule.score(scored.window_prob, offsets)
    return BareTraining(detector, rule, score, data, trainer.global_step)
