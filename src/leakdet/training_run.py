"""One training from store to model file, metrics and report: what train, tune and crossval share."""

import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakdet._messages import LOG
from leakdet.config import TrainConfig, TrainerFlags

if TYPE_CHECKING:
    from lightning.pytorch.callbacks import Callback

    from leakdet.detection.detector import MelDetector
    from leakdet.evaluation.scored_recordings import ScoredRecordings
    from leakdet.storage.store import StoreSplit
    from leakdet.training.datamodule import LeakDataModule


def train_in(
    folder: Path,
    config: TrainConfig,
    extra: "Sequence[Callback]" = (),
    finish: bool = True,
    parts: "Sequence[StoreSplit]" = (),
) -> dict[str, Any] | None:
    """One training in `folder`, with callbacks of the caller's. Returns what metrics.json tells, on rank 0 only.

    `finish=False` ends after fitting: no split is scored, no model file is written, test stays unseen. `parts` train and
    validate in place of the store's own splits, where nothing is to be finished.
    """
    from leakdet._processes import is_child
    from leakdet.storage.model_file import load_mel_detector
    from leakdet.training.datamodule import LeakDataModule
    from leakdet.training.fit import best_checkpoint, fit
    from leakdet.training.resume import refuse_overwriting
    from leakdet.training.settings_conflicts import check_settings

    check_settings(config)
    if config.resume is None:
        refuse_overwriting(folder)
    store = _store(config)
    data = LeakDataModule(config, store, *parts, read=False)
    if not is_child():
        LOG.info(_introduction(config, data))
    data.read_in(test=finish)
    trainer = fit(config, data, folder, extra)
    if not trainer.is_global_zero or not finish:  # the other ranks have done their part
        return None
    best = load_mel_detector(best_checkpoint(trainer), trust_network=config.network.name)
    recordings, audited = _evaluate(config, data, best)
    content = _save(data, best, recordings, audited, folder)
    _figures(trainer, recordings["val"], content, folder)
    return content


def _store(config: TrainConfig) -> Path:
    from leakdet._processes import is_child
    from leakdet.building.demo_store import store_or_demo

    store = store_or_demo(config.data, config.demo, config.signal)
    if config.data.store is None and not is_child():
        LOG.info(f"No data.store was given: training on the demo, synthetic recordings in {store}")
    return store


def _shares(names: Sequence[str], shares: Iterable[float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in zip(names, shares, strict=True))


def stops_when(config: TrainConfig) -> str:
    """When the run ends: patience counts validation checks, and how many epochs those are depends on the trainer."""
    flags = TrainerFlags.of(config.trainer)
    interval, every = flags.val_check_interval, flags.check_val_every_n_epoch

    def checks(count: int) -> str:
        of_epochs = isinstance(interval, float)  # an integer counts batches
        return f"{count} validation checks" + (
            f" ({count * every * interval:g} epochs)" if of_epochs else ""
        )

    most = flags.max_epochs
    parts = [f"after epoch {most} at the latest"] if most > 0 else []
    parts += [f"after {checks(config.patience)} without a better recording F1"]
    if config.loss_patience:
        parts += [f"after {checks(config.loss_patience)} with a risen loss"]
    return ", or ".join(parts)


def _introduction(config: TrainConfig, data: "LeakDataModule") -> str:
    """What is trained on what, and with which class balance: the first thing to look at when a run goes wrong."""
    import torch

    from leakdet.detection.losses import class_weights, effective_balance

    mix = _shares(data.labels.names, data.train_mix)
    if config.data.sampling == "curriculum":
        first = _shares(data.labels.names, data.mix_of_epoch(0))
        mix = f"{first} at first, {mix} from epoch {config.data.curriculum_epochs + 1}"
    train, val = data.train_split, data.val_split
    shape = " x ".join(map(str, data.sample_shape))
    weights = class_weights(
        config.loss, torch.from_numpy(data.train_mix).float(), data.labels.leak_index
    )
    drawn = torch.from_numpy(data.train_mix * data.train_weights).float()
    weighed = _shares(data.labels.names, effective_balance(drawn, weights).tolist())
    made = f" and {data.surrogates} surrogates" if data.surrogates else ""
    lines = [
        f"store    {data.store}",
        f"train    {train.recordings - data.surrogates} recordings{made}, {train.windows} windows",
        f"val      {val.recordings} recordings, {val.windows} windows",
        f"classes  drawn as {mix} ({config.data.sampling} sampling, loss {config.loss.name}); leak is {data.leak_label}",
        f"balance  weighs in the loss as {weighed}",
        f"data     {data.residency.kind}: {data.residency.reason}",
        f"network  {config.network.name} on {config.data.unit}s of {shape} (segments, mels, frames)",
        f"stops    {stops_when(config)}",
    ]
    if train.signal_unknown:
        lines.append(
            f"note     {train.signal_unknown}: the model will score stores like this one, but no audio"
        )
    lines += [f"note     {slow}" for split in (train, val) if (slow := split.mel.slow_chunks)]
    if not train.groups:
        lines.append(
            "note     the store names no sites or sensors, so whether the splits share them cannot be checked"
        )
    if config.data.shuffle_labels:
        lines.append(
            "note     LABELS ARE SHUFFLED: this is a null test, its model is worth nothing"
        )
    return "\n".join(lines)


def _evaluate(
    config: TrainConfig, data: "LeakDataModule", best: "MelDetector"
) -> tuple[dict[str, "ScoredRecordings"], dict[str, Any]]:
    """Fit the rule on val with the best weights, score val and, once, test; and audit the last of them for shortcuts."""
    from leakdet.detection.decision import fit_rule
    from leakdet.evaluation.audit import audit
    from leakdet.evaluation.split_scores import apply_rule, score_split
    from leakdet.storage.opening import open_any_split

    val = score_split(best, data.val_split, data.leak_label)
    if config.data.shuffle_labels:
        val.is_leak = data.val_is_leak
    best.rule = fit_rule(
        val.window_prob,
        val.split.recording_offsets,
        val.is_leak,
        config.decision,
        fitted_on="val",
    )
    scored = {"val": val}
    if data.test_split:
        scored["test"] = score_split(best, data.test_split, data.leak_label)
    judged = list(scored.values())[-1]
    audited = audit(
        open_any_split(data.store, "train"),  # without surrogates, which are no recordings
        judged.split,
        best.rule.score(judged.window_prob, judged.split.recording_offsets),
        is_leak=judged.is_leak,
        leak=data.leak_label,
        shuffled=config.data.shuffle_labels,
    )
    return {name: apply_rule(scores, best.rule) for name, scores in scored.items()}, audited


def _save(
    data: "LeakDataModule",
    best: "MelDetector",
    recordings: dict[str, "ScoredRecordings"],
    audited: dict[str, Any],
    folder: Path,
) -> dict[str, Any]:
    from leakdet._screen import metrics_text
    from leakdet.evaluation.metrics_json import for_model_file, metrics_content, split_metrics
    from leakdet.evaluation.split_scores import split_group_by
    from leakdet.reporting.report import write_results
    from leakdet.reporting.report_input import ReportInput
    from leakdet.storage.model_file import save_model
    from leakdet.training import log_names

    group_by = split_group_by(data.store)
    tables = {name: split_metrics(found, group_by=group_by) for name, found in recordings.items()}
    LOG.info(metrics_text(tables, best.rule))
    for finding in audited["findings"]:
        LOG.info(f"audit    {finding}")
    training = {
        **best.card["training"],
        "store": str(data.store.absolute()),
        "store_signal_hash": data.train_split.signal.hash if data.train_split.signal else None,
        "recordings": {
            "train": data.train_split.recordings - data.surrogates,
            "val": data.val_split.recordings,
        },
        "surrogates": data.surrogates,
        "versions": _versions(),
    }
    card = {**best.card, "decision_rule": best.rule.to_json(), "training": training}
    card["metrics"] = for_model_file(tables)
    model = folder / "model.safetensors"
    save_model(model, best.network.state_dict(), card)
    more = {
        "best_epoch": best.card["training"]["epoch"],
        "model": model.name,
        # the settings too: the learning rate and batch size that were found are in the checkpoint's alone
        **{
            key: training[key]
            for key in ("settings", "store", "store_signal_hash", "recordings", "versions")
        },
    }
    LOG.info(f"model    {model}")
    content = metrics_content(tables, best.rule, group_by, audit=audited, **more)
    title = f"training on {data.store.name}"
    write_results(folder, ReportInput(title, recordings, content, folder / log_names.HISTORY))
    return content


def _figures(trainer: Any, val: "ScoredRecordings", metrics: dict[str, Any], folder: Path) -> None:
    """The run as figures: PNG in its folder, and in TensorBoard where that is on."""
    from lightning.pytorch.loggers import TensorBoardLogger

    from leakdet.reporting.training_figures import read_history, write_training_figures
    from leakdet.training import log_names

    recording = metrics["val"]["recording"]
    pixels = write_training_figures(
        read_history(folder / log_names.HISTORY),
        (recording["tn"], recording["fp"], recording["fn"], recording["tp"]),
        val.score,
        val.is_leak,
        metrics["decision_rule"]["threshold"],
        folder / "figures",
    )
    for logger in trainer.loggers:
        if isinstance(logger, TensorBoardLogger):
            for name, image in pixels.items():
                logger.experiment.add_image(
                    f"{log_names.FIGURES}{name}", image, trainer.global_step, dataformats="HWC"
                )
            logger.finalize("success")
    LOG.info(f"figures  {folder / 'figures'}")


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {
        "python": platform.python_version(),
        **{name: version(name) for name in ("leakdet", "torch", "lightning")},
    }
