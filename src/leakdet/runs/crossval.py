"""One cross-validation, from store to tables and reports: trains folds, pools their predictions."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from leakdet.cli.tables import protocols_text, sensors_text
from leakdet.config import CrossvalConfig, FoldsConfig, MeasuredTrainConfig, TrainerFlags
from leakdet.core.errors import InputError, counted
from leakdet.core.files import from_here
from leakdet.core.messages import LOG, log_detail, log_result
from leakdet.core.progress import ProgressCounter
from leakdet.crossvalidation.fold_runs import (
    FoldResult,
    PooledPredictions,
    Task,
    all_tasks,
    note_pooled,
    pooled_folds,
    pooling,
    prediction_rows,
    protocol_result,
    protocol_summaries,
    read_fold,
    record_settings,
    run_fold,
    state_of_folds,
    without_group,
    write_fold,
    write_tables,
)
from leakdet.evaluation.metrics_json import metrics_content, split_metrics
from leakdet.evaluation.split_scores import is_synthetic, split_group_by, to_scored_recordings
from leakdet.evaluation.traits import traits_of
from leakdet.reporting.conclusion import log_summary
from leakdet.reporting.report import ReportInput, write_results
from leakdet.storage.folder import BY_BUILD, build_facts, require_store
from leakdet.storage.folds import RECORDING
from leakdet.storage.opening import open_labelled, split_names
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import SplitView, pooled, view_of_all
from leakdet.training.callbacks.progress import EpochReport
from leakdet.training.splits import require_unmet

HELD_OUT = "held_out"  # name of the pooled recordings, where a report of `train` names a split


def cross_validate(config: CrossvalConfig, store: Path, folder: Path) -> None:
    """Run this part's folds in `folder`; pool all folds once the last of them is done."""
    require_store(store)
    view = pooled([open_labelled(store, name, config.labels) for name in split_names(store)])
    config = _with_null_repeats(_with_groups(config, store))
    tasks = all_tasks(config, view)
    tested = np.unique(np.concatenate([task.fold.test for task in tasks]))
    require_unmet(config, view.take(tested, "test"), "the cross-validation")
    folder.mkdir(parents=True, exist_ok=True)
    record_settings(folder, _fingerprint(config, store, view))
    pooled_before = pooled_folds(folder)
    labels = view_of_all([view])
    log_detail(f"store    {store}: {counted(view.recordings, 'recording')}")
    log_detail(f"labels   {labels.sentence()}")
    notes = [f"note     {note}" for note in labels.notes()]
    LOG.info("\n".join([*notes, *protocol_summaries(config, view)]))
    _run_folds(config, store, tasks, folder)
    missing = [task for task in tasks if not _path(folder, task).exists()]
    if missing and config.crossval.parts == 1:
        raise InputError(
            f"{folder}: {len(missing)} of {len(tasks)} folds are gone that were there; the folder "
            "may have been moved or removed while it was used. Repeat the command to go on."
        )
    if missing:
        LOG.info(
            f"{len(missing)} of {len(tasks)} folds are left to the other parts; "
            "the last part pools them all."
        )
        return
    with pooling(folder):
        folds = state_of_folds(_path(folder, task) for task in tasks)
        if pooled_folds(folder) == folds != pooled_before:  # while this job ended
            LOG.info(f"Another part has pooled all {len(tasks)} folds, in {folder}")
            return
        pages = _pool(config, store, view, tasks, folder)
        for protocol, page in pages.items():
            if len(pages) > 1:
                log_result(f"protocol {protocol}")
            _report(folder / protocol, page)
        log_detail(f"metrics  {folder / 'metrics.json'}\nrows     {folder / 'predictions.csv'}")
        note_pooled(folder, folds)


@dataclass(frozen=True)
class Folds:
    """The folds that measure a training: each scores recordings whose groups it has not met."""

    config: CrossvalConfig
    store: Path
    view: SplitView  # of all recordings
    tasks: Sequence[Task]

    def held_out(self, folder: Path) -> ReportInput:
        """Train the folds in `folder` and pool them; the report is that of their recordings.

        Folds of other settings, as of a training resumed for more epochs, are run anew.
        """
        settings = _fingerprint(self.config, self.store, self.view)
        try:
            record_settings(folder, settings)
        except InputError:
            shutil.rmtree(folder)
            record_settings(folder, settings)
        _run_folds(self.config, self.store, self.tasks, folder)
        (page,) = _pool(self.config, self.store, self.view, self.tasks, folder).values()
        return page


def folds_of_few(config: MeasuredTrainConfig, store: Path) -> Folds | None:
    """The folds that measure a training; None where the test split is to do it.

    By default few recordings that `build` divided by itself are measured so: its test split is too
    small to say much. Nothing is where the folds could not be trained.
    """
    wanted, flags = config.crossval, TrainerFlags.of(config.trainer)
    partly = flags.fast_dev_run or flags.overfit_batches or flags.limit_train_batches != 1.0
    if wanted.folds == 0 or partly or not flags.one_device:
        return None
    if config.data.shuffle_labels or config.init_from:
        return None
    if not wanted.given and build_facts(store).get("divided_by") != BY_BUILD:
        return None
    splits = {name: open_labelled(store, name, config.labels) for name in split_names(store)}
    if not wanted.given and not _are_few(splits):
        return None
    folds, view = _with_groups(config.by_folds(), store), pooled([*splits.values()])
    try:
        return Folds(folds, store, view, all_tasks(folds, view))
    except InputError as error:
        if wanted.given:
            raise
        log_detail(f"folds    none, test measures: {error}")
        return None


def _are_few(splits: Mapping[str, StoreSplit]) -> bool:
    recordings = sum(split.recordings for split in splits.values())
    leaks = splits["test"].is_leak if "test" in splits else np.empty(0, bool)
    return FoldsConfig.are_few(recordings, int(leaks.sum()), int((~leaks).sum()))


def _with_groups(config: CrossvalConfig, store: Path) -> CrossvalConfig:
    """Hold out what the store was split by, where the settings do not say what to hold out."""
    if not config.crossval.groups_left_open:
        return config
    columns = split_group_by(store)
    if columns:
        log_detail(
            f"note     held out by {' and '.join(columns)}, by which the store was split "
            "(crossval.group_by=recording holds out single recordings)"
        )
    return replace(config, crossval=config.crossval.grouped_by(columns or [RECORDING]))


def _with_null_repeats(config: CrossvalConfig) -> CrossvalConfig:
    """Repeat a null run: a single permutation of the labels says little."""
    settings = config.crossval
    if not config.data.shuffle_labels or settings.repeats >= config.data.shuffle_repeats:
        return config
    LOG.info(
        f"note     a null run is repeated {config.data.shuffle_repeats} times, each time with "
        "another permutation of the labels (data.shuffle_repeats)"
    )
    repeated = replace(settings, repeats=config.data.shuffle_repeats)
    return replace(config, crossval=repeated)


def _fingerprint(config: CrossvalConfig, store: Path, view: SplitView) -> dict[str, Any]:
    """Settings and store that pooled folds must share: not jobs, loggers or how many repeats."""
    settings = asdict(config)
    for name in ("out", "part", "parts", "repeats"):  # a further repeat adds folds and changes none
        del settings["crossval"][name]
    for name in ("logger", "log", "demo", "signal"):
        del settings[name]
    del settings["data"]["shuffle_repeats"]  # as of repeats
    settings["data"]["store"] = str(store.absolute())
    signal = view.signal.hash if view.signal else None
    return {"settings": settings, "recordings": view.recordings, "signal_hash": signal}


def _path(folder: Path, task: Task) -> Path:
    return folder / "folds" / task.file_name


def _run_folds(config: CrossvalConfig, store: Path, tasks: Sequence[Task], folder: Path) -> None:
    """Run this part's folds; one whose file exists is done."""
    of_this_part = tasks[config.crossval.part :: config.crossval.parts]
    todo = [task for task in of_this_part if not _path(folder, task).exists()]
    done = len(of_this_part) - len(todo)
    if done:
        LOG.info(f"{done} of {len(of_this_part)} folds are done already, in {from_here(folder)}")
    with ProgressCounter("folds", len(todo), "folds", closing=False) as progress:
        epochs = EpochReport(lambda epoch: progress.retitle(f"{epoch}, folds"))
        for task in todo:
            if _path(folder, task).exists():  # another job was faster
                progress.step()
                continue
            result = run_fold(config, store, task, folder / "folds", epochs)
            write_fold(_path(folder, task), result)
            progress.step()
            log_detail(f"{_fold_text(task, result)}; {progress.left()} left")


def _fold_text(task: Task, result: dict[str, Any]) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in result["recordings"].items())
    return (
        f"{task.protocol}, seed {task.seed}, {task.fold.name}: {counts}; "
        f"{counted(result['steps'], 'step')}, weights of epoch {result['best_epoch'] + 1}, "
        f"{result['seconds']:.0f} s"
    )


def _pool(
    config: CrossvalConfig, store: Path, view: SplitView, tasks: Sequence[Task], folder: Path
) -> dict[str, ReportInput]:
    """Pool the predictions of all folds, write the tables, and return a page for each protocol."""
    outcomes: dict[str, list[FoldResult]] = {}
    for task in tasks:
        outcome = FoldResult(task, read_fold(_path(folder, task)))
        outcomes.setdefault(task.protocol, []).append(outcome)
    traits = traits_of(view)
    shuffled = config.data.shuffle_labels
    results = {
        name: protocol_result(folds, view, traits, shuffled) for name, folds in outcomes.items()
    }
    for name, protocol in config.crossval.by_name().items():
        results[name]["without_group"] = without_group(protocol, view, name)
    rows = [
        row
        for name, folds in outcomes.items()
        for row in prediction_rows(name, PooledPredictions.of(folds, view), view)
    ]
    content = write_tables(
        folder, results, rows, synthetic=is_synthetic(store), settings=asdict(config)
    )
    log_detail(protocols_text(results))
    pages = {}
    for name, protocol in config.crossval.by_name().items():
        first = [outcome for outcome in outcomes[name] if outcome.result["seed"] == config.seed]
        pages[name] = _page(name, protocol.group_by, first, view, content)
    return pages


def _page(
    protocol: str,
    group_by: list[str],
    outcomes: Sequence[FoldResult],
    view: SplitView,
    content: dict[str, Any],
) -> ReportInput:
    """The report of one protocol's held-out recordings under the first seed."""
    predictions = PooledPredictions.of(outcomes, view)
    window_prob = np.concatenate([outcome.window_prob() for outcome in outcomes])
    scored = to_scored_recordings(
        view.take(predictions.row, HELD_OUT),
        window_prob,
        predictions.is_leak,
        predictions.score,
        predictions.threshold,
    )
    scored = replace(scored, classes=predictions.classes, reason=predictions.reason)
    result, settings = content["crossval"][protocol], content["settings"]
    columns = [] if group_by == [RECORDING] else group_by
    resampled = columns if result["recording"]["intervals"]["unit"] == "group" else []
    tables = {HELD_OUT: split_metrics(scored, group_by=resampled)}
    more = {"synthetic": content["synthetic"], "settings": settings, "audit": result["audit"]}
    more["without_group"] = result["without_group"]
    metrics = metrics_content(tables, None, columns, **more)
    repeats = settings["crossval"]["repeats"]
    title = f"cross-validation, {protocol}"
    title += f", the first of {repeats} repeats" if repeats > 1 else ""
    for line in sensors_text(title, tables[HELD_OUT]):
        log_detail(line)
    return ReportInput(title, {HELD_OUT: scored}, metrics)


def _report(folder: Path, page: ReportInput) -> None:
    following = f"leakdet train {from_here(Path(page.metrics['settings']['data']['store'] or ''))}"
    write_results(folder, page)
    log_summary(page.metrics, folder, following, brief=True)
