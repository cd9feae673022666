"""The further trainings of a null run, each with another permutation of the labels."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from leakdet._messages import LOG
from leakdet._progress import ProgressCounter
from leakdet.config import CallbacksConfig, TrainConfig
from leakdet.evaluation.metrics import auroc
from leakdet.evaluation.split_scores import score_split
from leakdet.training import log_names
from leakdet.training.bare_training import quiet, train_bare
from leakdet.training.callbacks.interruption import Interrupted
from leakdet.training.callbacks.progress import EpochReport

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
