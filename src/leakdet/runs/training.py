"""One training run from store to model file, metrics and report; train, tune and fit call it."""

import os
import random
import shutil
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakdet.config import MeasuredTrainConfig, TrainConfig, TrainerFlags
from leakdet.core.messages import LOG, log_detail, messages_if, print_status
from leakdet.core.progress import time_text

if TYPE_CHECKING:
    from lightning.pytorch.callbacks import Callback

    from leakdet.detection.detector import MelDetector
    from leakdet.evaluation.scored_recordings import ScoredRecordings
    from leakdet.evaluation.split_scores import SplitScores
    from leakdet.runs.crossval import Folds
    from leakdet.storage.store import StoreSplit
    from leakdet.training.datamodule import LeakDataModule

MODEL = "model.safetensors"  # in the folder of a run
FOLDS = "crossval"  # there: the folds that measured it, as of the verb


@dataclass(frozen=True)
class FitResult:
    """The result of a training, all of it in its folder."""

    folder: Path
    model: Path  # the model file
    metrics: dict[str, Any]  # the content of metrics.json
    warnings: list[str]  # of the diagnostic callbacks, as in warnings.txt


def fit(
    config: TrainConfig, folder: "str | os.PathLike[str]", progress: bool | None = None
) -> FitResult:
    """Train as `leakdet train` does, into `folder`: checkpoints, model file, metrics and report.

    `progress` prints what the command prints, the epochs as they come; None: in an interactive
    session.

    >>> import leakdet
    >>> settings = ["data.store=store", "network=linear", "trainer.max_epochs=2", "logger=none"]
    >>> result = fit(leakdet.compose("train", settings), "runs/first")
    >>> result.model.name, result.metrics["test"]["recording"]["n"]
    ('model.safetensors', 4)

    Raises:
        SettingsError: settings contradict each other, or the folder holds a run already, or one
            that another process is writing.
        InputError: a store, checkpoint or other file that the settings name cannot be used.
        LeakdetError: the loss became NaN or infinite.
        KeyboardInterrupt: Ctrl-C; the step was finished and `checkpoints/last.ckpt` written.
    """
    if not isinstance(config, TrainConfig):
        raise TypeError(f'fit({config!r}, …): give settings, leakdet.compose("train", {config!r})')
    with _as_before(), messages_if(progress):
        return _fit(config, Path(folder))


def _fit(config: TrainConfig, folder: Path) -> FitResult:
    from leakdet.core.files import claimed, forget_launcher
    from leakdet.storage.folder import with_local_stores
    from leakdet.training import log_names
    from leakdet.training.callbacks.stopping import Interrupted

    config = replace(config, data=with_local_stores(config.data))
    forget_launcher(TrainerFlags.of(config.trainer).one_device)
    try:
        with claimed(folder):
            metrics = train_in(folder, config)
    except Interrupted as stop:
        if stop.number == signal.SIGINT:
            raise KeyboardInterrupt(str(stop)) from stop
        raise
    path = folder / log_names.WARNINGS
    warnings = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return FitResult(folder, folder / MODEL, metrics or {}, warnings)


@contextmanager
def _as_before() -> Iterator[None]:
    """Restore what a training sets for its process: seeds, variables, filters, torch's threads."""
    import numpy as np
    import torch

    variables, drawn, drawn_np = dict(os.environ), random.getstate(), np.random.get_state()  # noqa: NPY002
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    gpus = range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0)  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(gpus):
            yield
    finally:
        random.setstate(drawn)
        np.random.set_state(drawn_np)  # noqa: NPY002
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
        for name in os.environ.keys() - variables:
            del os.environ[name]
        os.environ.update(variables)


def train_in(
    folder: Path,
    config: TrainConfig,
    extra: "Sequence[Callback]" = (),
    finish: bool = True,
    parts: "Sequence[StoreSplit]" = (),
    brief: bool = False,
) -> dict[str, Any] | None:
    """Train in `folder` with further callbacks; the content of metrics.json, on rank 0 only.

    `finish=False` ends after fitting: no split is scored and no model file written. `parts` train
    and validate in place of the store's own splits, where nothing is to be finished. With the
    settings of the verb, all of few recordings train, and folds measure the model. `brief`: what is
    trained on is told among the details.
    """
    from leakdet.cli.checks import refuse_other_signal, refuse_used_folder
    from leakdet.core.process import is_child
    from leakdet.runs.crossval import folds_of_few
    from leakdet.storage.model_file import load_mel_detector
    from leakdet.storage.store import StoreIdentity
    from leakdet.training.callbacks.built_in import space_line
    from leakdet.training.datamodule import LeakDataModule
    from leakdet.training.fit import fit as fit_network
    from leakdet.training.fit import result_checkpoint
    from leakdet.training.run_summary import introduction, summary
    from leakdet.training.settings import check_settings, needs_val
    from leakdet.training.splits import every_recording, warn_of_start

    check_settings(config)
    refuse_other_signal(config)
    if config.resume is None:
        refuse_used_folder(folder)
    tell = log_detail if brief else LOG.info
    store = _store(config, tell)
    opened = StoreIdentity.of(store)
    folds = folds_of_few(config, store) if isinstance(config, MeasuredTrainConfig) else None
    config = config.plain()
    if folds is not None:
        parts = every_recording(config, store)
    data = LeakDataModule(config, store, *parts)
    data.setup("fit")
    config = data.config
    if not is_child():
        tell(summary(data, len(folds.tasks) if folds else 0))
        log_detail(f"{introduction(data)}\n{space_line(data, folder)}")
    chooses = needs_val(config, data.splits.val.recordings)
    warn_of_start(data.start, store, data.splits, chooses)
    data.read_windows(test=finish)
    started = time.monotonic()
    trainer = fit_network(data, folder, extra)
    if not trainer.is_global_zero or not finish:  # the other ranks have done their part
        return None
    trained: Any = trainer.lightning_module  # under settings that were chosen before its first step
    data, config = trained.data, trained.config
    checkpoint = result_checkpoint(trainer)
    opened.check(f"The trained weights are in {checkpoint}, which predict and evaluate take.")
    best = load_mel_detector(checkpoint, trust_network=config.network.name)
    if folds is not None:
        about = "" if config.resume else time_text((time.monotonic() - started) * len(folds.tasks))
        _take_over_folds(config, folder)
        judged = _measure(folds, data, best, checkpoint, about)
    else:
        judged = _evaluate(data, best, folder if trainer.world_size == 1 else None)
    content = _save(data, best, judged, folder, tell)
    _figures(trainer, content, folder)
    return content


def _take_over_folds(config: TrainConfig, folder: Path) -> None:
    """Copy the finished folds of the run that is continued in another folder."""
    checkpoint = Path(config.resume or "")
    run = checkpoint.parent.parent if checkpoint.suffix == ".ckpt" else checkpoint
    if config.resume and (run / FOLDS).is_dir() and not (folder / FOLDS).exists():
        shutil.copytree(run / FOLDS, folder / FOLDS)


def next_command(metrics: dict[str, Any], model: Path) -> str:
    """What makes sense after a training: recordings that are real, more folds, or use."""
    from leakdet.core.files import from_here
    from leakdet.reporting.conclusion import own_verdict

    if metrics["synthetic"]:
        return "leakdet train RECORDINGS"
    if own_verdict(metrics)["grade"] in ("bad", "unknown"):
        return f"leakdet crossval {from_here(Path(metrics['store']))}"
    return f"leakdet predict {from_here(model)} RECORDINGS"


def _store(config: TrainConfig, tell: Callable[[str], None]) -> Path:
    from leakdet.building.cached_stores import store_or_demo
    from leakdet.core.process import is_child

    store = store_or_demo(config.data, config.demo, config.signal)
    if config.data.is_demo and not is_child():
        tell(f"No data.store was given: training on the demo, synthetic recordings in {store}")
    return store


@dataclass(frozen=True)
class _Measured:
    """Scored recordings by split, their tables and audit, and further entries of metrics.json."""

    recordings: "dict[str, ScoredRecordings]"
    tables: dict[str, Any]
    group_by: list[str]
    audit: dict[str, Any]
    facts: dict[str, Any]


def _fit_rule(
    data: "LeakDataModule", best: "MelDetector", train: "StoreSplit", known: "Sequence[StoreSplit]"
) -> "SplitScores":
    """Fit the decision rule on val, and keep with the model what it has met; the scores of val.

    `known` are the recordings of which it knows the sound: train and, where it chose nothing, val.
    """
    from leakdet.detection.decision import fit_rule
    from leakdet.detection.stored_scores import ValidationScores
    from leakdet.evaluation.met import reference_sentence, training_rates, training_reference
    from leakdet.evaluation.split_scores import score_split
    from leakdet.training.run_summary import met_by_training

    config = data.config
    best.reference = training_reference(data.store, known, config.seed)
    best.sources = training_rates(train)
    log_detail(reference_sentence(best.reference))
    val = score_split(best, data.splits.val)
    if config.data.shuffle_labels:
        val.is_leak, val.true_class = data.val_is_leak, data.val_samples.class_of_recording
    offsets = val.split.recording_offsets
    best.rule = fit_rule(val.window_prob, offsets, val.is_leak, config.decision, fitted_on="val")
    best.validation = ValidationScores.of(best.rule.score(val.window_prob, offsets), val.is_leak)
    best.met = met_by_training(data, train)
    return val


def _evaluate(data: "LeakDataModule", best: "MelDetector", repeats_in: Path | None) -> _Measured:
    """Fit the rule on val, score val and test with the best weights, and audit the last of them.

    Test recordings that the start of the training has met are kept apart. A null run is repeated in
    the folder `repeats_in`; None, as with several processes: it is not.
    """
    from leakdet.detection.stored_scores import ValidationScores
    from leakdet.evaluation.audit import audit
    from leakdet.evaluation.met import judged_apart
    from leakdet.evaluation.metrics import auroc
    from leakdet.evaluation.metrics_json import split_metrics
    from leakdet.evaluation.split_scores import apply_rule, score_split, split_group_by
    from leakdet.storage.opening import open_labelled
    from leakdet.training.scratch import further_aurocs
    from leakdet.training.settings import needs_val

    config, facts = data.config, dict[str, Any]()
    train = open_labelled(data.store, "train", config.labels)
    chosen_by_val = needs_val(config, data.splits.val.recordings)
    known = [train] if chosen_by_val else [train, data.splits.val]
    scored = {"val": _fit_rule(data, best, train, known)}
    if data.start is not None:
        facts["started_from"] = data.start.account(data.splits)
    if test := data.splits.test:
        if data.start is not None:
            test, facts["met_in_training"] = judged_apart(best, test)
        scored["test"] = score_split(best, test)
        if best.met is not None:
            facts["groups_met"] = best.met.groups_met(data.splits.test.groups)
    judged = list(scored.values())[-1]
    score = best.rule.score(judged.window_prob, judged.split.recording_offsets)
    aurocs = []
    if config.data.shuffle_labels:
        area = auroc(score, judged.is_leak)
        aurocs = [] if area is None else [area]
        aurocs += further_aurocs(config, data.store, repeats_in) if repeats_in else []
    audited = audit(train, judged.split, score, is_leak=judged.is_leak, null_aurocs=aurocs)
    recordings = {name: apply_rule(scores, best.rule) for name, scores in scored.items()}
    if tested := recordings.get("test"):
        best.tested = ValidationScores.of(tested.score, tested.is_leak)
    group_by = split_group_by(data.store)
    tables = {name: split_metrics(found, group_by=group_by) for name, found in recordings.items()}
    return _Measured(recordings, tables, group_by, audited, facts)


def _measure(
    folds: "Folds", data: "LeakDataModule", best: "MelDetector", checkpoint: Path, about: str
) -> _Measured:
    """Fit the rule, and let folds measure how such a model does on recordings held out of it.

    `about` is how long they may take; a stop in one of them leaves the `checkpoint` of the model.
    """
    from leakdet.detection.stored_scores import ValidationScores
    from leakdet.evaluation.metrics_json import split_metrics
    from leakdet.evaluation.split_scores import apply_rule
    from leakdet.training.callbacks.stopping import Interrupted
    from leakdet.training.settings import needs_val

    if about:
        count = len(folds.tasks)
        print_status(f"folds: 0/{count} folds, about {about} left", kind="progress")
    try:
        page = folds.held_out(checkpoint.parent.parent / FOLDS)
    except Interrupted as stop:
        raise Interrupted(stop.number, checkpoint) from stop
    train, metrics = data.splits.train, page.metrics
    val = apply_rule(_fit_rule(data, best, train, [train]), best.rule)
    recordings, tables = dict(page.recordings), {page.judged: page.tables}
    judged = recordings[page.judged]
    best.tested = ValidationScores.of(judged.score, judged.is_leak)
    if needs_val(data.config, data.splits.val.recordings):
        recordings = {"val": val, **recordings}
        tables = {"val": split_metrics(val, group_by=metrics["group_by"]), **tables}
    else:  # which the model has met
        best.validation = best.tested
    facts = {"without_group": metrics["without_group"], "folds": len(folds.tasks)}
    return _Measured(recordings, tables, metrics["group_by"], metrics["audit"], facts)


def _save(
    data: "LeakDataModule",
    best: "MelDetector",
    measured: _Measured,
    folder: Path,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    from leakdet.cli.tables import metrics_text
    from leakdet.evaluation.met import all_met, unfamiliar_account, unfamiliar_sentence
    from leakdet.evaluation.metrics_json import for_model_file, metrics_content
    from leakdet.evaluation.split_scores import is_synthetic
    from leakdet.reporting.conclusion import own_verdict
    from leakdet.reporting.report import ReportInput, write_results
    from leakdet.storage.model_card import missing_sounds
    from leakdet.storage.model_file import save_model
    from leakdet.training import log_names
    from leakdet.training.run_summary import training_facts

    recordings, tables, facts = measured.recordings, measured.tables, measured.facts
    log_detail(metrics_text(tables, best.rule, all_met(facts.get("met_in_training"))))
    for finding in measured.audit["findings"]:
        log_detail(f"audit    {finding}")
    training = best.card["training"] | training_facts(data)
    card = {**best.card, "decision_rule": best.rule.to_json(), "training": training}
    card["metrics"] = for_model_file(tables)
    model = folder / MODEL
    log_detail(f"model    {model}")
    # the checkpoint's settings, since only they hold a learning rate and batch size that were found
    copied = ("settings", "store", "store_signal_hash", "recordings", "versions")
    more = {"best_epoch": training["epoch"], "model": model.name}
    more["synthetic"] = is_synthetic(data.store)
    more |= {key: training[key] for key in copied}
    more["unfamiliar"] = unfamiliar_account(list(recordings.values())[-1], best.rule)
    if sentence := unfamiliar_sentence(more["unfamiliar"]):
        log_detail(f"unfamiliar  {sentence}")
    if line := missing_sounds(card):
        tell(line)
    content = metrics_content(
        tables, best.rule, measured.group_by, audit=measured.audit, **more, **facts
    )
    card["verdict"] = own_verdict(content)
    kept = (best.met, best.validation, best.reference, best.tested, best.sources)
    save_model(model, best.network.state_dict(), card, *kept)
    title, history = f"training on {data.store.name}", folder / log_names.HISTORY
    write_results(folder, ReportInput(title, recordings, content, history))
    return content


def _figures(trainer: Any, metrics: dict[str, Any], folder: Path) -> None:
    """Draw the run into its folder beside the figures of its results, all for TensorBoard too."""
    from lightning.pytorch.loggers import TensorBoardLogger

    from leakdet.reporting.figures import read_pngs
    from leakdet.reporting.training_figures import read_history, write_training_figures
    from leakdet.training import log_names
    from leakdet.training.trainer import log_scores

    history = read_history(folder / log_names.HISTORY)
    write_training_figures(history, metrics["best_epoch"], folder / "figures")
    for logger in trainer.loggers:
        if isinstance(logger, TensorBoardLogger):
            for name, pixels in read_pngs(folder / "figures").items():
                logger.experiment.add_image(
                    f"{log_names.FIGURES}{name}", pixels, trainer.global_step, dataformats="HWC"
                )
            log_scores(logger, metrics["settings"], metrics)
            logger.finalize("success")
