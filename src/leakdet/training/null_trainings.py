"""The further trainings of a null run, each with another permutation of the labels."""

import tempfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from leakdet._messages import LOG
from leakdet._progress import ProgressCounter
from leakdet.config import CallbacksConfig, TrainConfig
from leakdet.detection.decision import fit_rule
from leakdet.evaluation.metrics import auroc
from leakdet.evaluation.split_scores import score_split
from leakdet.storage.model_file import load_mel_detector
from leakdet.training import log_names
from leakdet.training.callbacks.interruption import Interrupted
from leakdet.training.callbacks.progress import EpochReport
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import fit, result_checkpoint

STOPS = ("early_stopping", "loss_stop")  # the callbacks that change the weights


def further_aurocs(config: TrainConfig, store: Path, folder: Path) -> list[float]:
    """AUROC of the test split, or of val without one, of each training after the first.

    Nothing of them is kept. `folder` is that of the first training, which stays resumable.

    Raises:
        Interrupted: a signal asked to stop; the first training's checkpoint is complete.
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
                area = _auroc(_quiet(config, seed), store, folder, epochs)
            except Interrupted as stop:
                last = folder / log_names.CHECKPOINTS / f"{log_names.LAST}{log_names.ENDING}"
                raise Interrupted(stop.number, last) from stop
            aurocs += [] if area is None else [area]
            progress.step()
    return aurocs


def _quiet(config: TrainConfig, seed: int) -> TrainConfig:
    """The same training under another seed, without anything that only logs or warns."""
    monitors: dict[str, Any] = {
        field.name: False
        for field in fields(CallbacksConfig)
        if field.name not in (*STOPS, "extra")
    }
    trainer = {**config.trainer, "enable_progress_bar": False, "num_sanity_val_steps": 0}
    callbacks = replace(config.callbacks, **monitors)
    return replace(config, seed=seed, trainer=trainer, logger={}, resume=None, callbacks=callbacks)


def _auroc(config: TrainConfig, store: Path, folder: Path, report: EpochReport) -> float | None:
    with tempfile.TemporaryDirectory(
        prefix=".null-", dir=folder, ignore_cleanup_errors=True
    ) as work:
        data = LeakDataModule(config, store)
        trainer = fit(config, data, Path(work), [report])
        checkpoint = result_checkpoint(trainer)
        detector = load_mel_detector(checkpoint, trust_network=config.network.name)
    val = score_split(detector, data.splits.val)
    offsets, is_leak = val.split.recording_offsets, data.val_is_leak
    rule = fit_rule(val.window_prob, offsets, is_leak, config.decision, fitted_on="val")
    if data.splits.test is None:
        return auroc(rule.score(val.window_prob, offsets), is_leak)
    test = score_split(detector, data.splits.test)
    return auroc(rule.score(test.window_prob, test.split.recording_offsets), test.is_leak)
