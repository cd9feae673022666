"""`python -m leakdet.crossval data.store=DIR crossval.group_by=pipe`: how good a recipe is on pipes that it never heard."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakdet._door import Run, open_door
from leakdet._exit_codes import DONE
from leakdet.config import CrossvalConfig

if TYPE_CHECKING:
    from leakdet.crossvalidation.pooled_folds import Outcome
    from leakdet.crossvalidation.run_fold import Task
    from leakdet.storage.views import SplitView

# what the recordings of a page are called, where a store's split has its name
HELD_OUT = "held_out"


def crossval(config: CrossvalConfig, run: Run) -> int:
    from leakdet.crossvalidation.fold_files import claim
    from leakdet.crossvalidation.run_fold import all_tasks, described
    from leakdet.storage.opening import leak_label_of, open_any_split, splits_there
    from leakdet.storage.views import pooled

    store = _store(config)
    there = splits_there(store) or ["train"]  # an empty folder: opening names what is missing
    view = pooled([open_any_split(store, name) for name in there])
    tasks = all_tasks(config, view, leak_label_of(view, config.labels.leak))
    folder = Path(config.crossval.out) if config.crossval.out else run.folder
    folder.mkdir(parents=True, exist_ok=True)
    claim(folder, _claimed(config, store, view))
    print(
        f"store    {store}: {view.recordings} recordings", *described(config), sep="\n", flush=True
    )
    _run_folds(config, store, tasks, folder)
    missing = [task for task in tasks if not _file(folder, task).exists()]
    if missing:
        print(
            f"{len(missing)} of {len(tasks)} folds are left to the other parts; the last one to finish pools them all."
        )
        return DONE
    _conclude(config, view, tasks, folder)
    return DONE


def _store(config: CrossvalConfig) -> Path:
    from leakdet.building.demo_store import store_or_demo

    if config.data.store is None:
        print("No data.store was given: cross-validating on the demo, synthetic recordings")
    return store_or_demo(config.data, config.demo, config.signal)


def _claimed(config: CrossvalConfig, store: Path, view: "SplitView") -> dict[str, Any]:
    """What must be the same for folds to be pooled: not who runs them, nor how they are shown."""
    settings = asdict(config)
    for name in ("out", "part", "parts", "repeats"):  # a further repeat adds folds and changes none
        del settings["crossval"][name]
    for name in ("logger", "demo", "signal"):
        del settings[name]
    settings["data"]["store"] = str(store.absolute())
    signal = view.signal.hash if view.signal else None
    return {"settings": settings, "recordings": view.recordings, "signal_hash": signal}


def _file(folder: Path, task: "Task") -> Path:
    return folder / "folds" / task.file_name


def _run_folds(config: CrossvalConfig, store: Path, tasks: list["Task"], folder: Path) -> None:
    """Run this part's folds; one whose file is there is done."""
    from leakdet.crossvalidation.fold_files import write_fold
    from leakdet.crossvalidation.run_fold import run_fold

    mine = tasks[config.crossval.part :: config.crossval.parts]
    done = [task for task in mine if _file(folder, task).exists()]
    if done:
        print(f"{len(done)} of {len(mine)} folds are done already, in {folder}")
    for task in mine:
        if _file(folder, task).exists():
            continue
        found = run_fold(config, store, task, folder / "folds")
        write_fold(_file(folder, task), found)
        counts = ", ".join(f"{count} {name}" for name, count in found["recordings"].items())
        print(
            f"{task.protocol}, seed {task.seed}, {task.fold.name}: {counts}; {found['steps']} steps, best epoch "
            f"{found['best_epoch'] + 1}, {found['seconds']:.0f} s",
            flush=True,
        )


def _conclude(config: CrossvalConfig, view: "SplitView", tasks: list["Task"], folder: Path) -> None:
    """Pool the predictions, write them down, and show the table."""
    from leakdet._screen import protocols_text
    from leakdet.crossvalidation.fold_files import read_fold, write_tables
    from leakdet.crossvalidation.pooled_folds import (
        Outcome,
        Pooled,
        prediction_rows,
        protocol_result,
    )
    from leakdet.evaluation.traits import traits_of

    outcomes: dict[str, list[Outcome]] = {}
    for task in tasks:
        found = read_fold(_file(folder, task))
        outcomes.setdefault(task.protocol, []).append(
            Outcome(task.fold, task.groups, task.is_leak, found)
        )
    traits = traits_of(view)
    shuffled = config.data.shuffle_labels
    results = {
        name: protocol_result(found, view, traits, shuffled) for name, found in outcomes.items()
    }
    rows = [
        row
        for name, found in outcomes.items()
        for row in prediction_rows(name, Pooled.of(found, view), view)
    ]
    content = write_tables(folder, results, rows, asdict(config))
    print(protocols_text(results))
    for name, protocol in config.crossval.by_name().items():
        first = [outcome for outcome in outcomes[name] if outcome.found["seed"] == config.seed]
        _report(folder, name, protocol.group_by, first, view, content)
    print(f"metrics  {folder / 'metrics.json'}\nrows     {folder / 'predictions.csv'}")


def _report(
    folder: Path,
    protocol: str,
    group_by: list[str],
    outcomes: "list[Outcome]",
    view: "SplitView",
    content: dict[str, Any],
) -> None:
    """The held-out recordings of one protocol, of the first seed: a page, and every number of it in files beside."""
    import numpy as np

    from leakdet.crossvalidation.folds import RECORDING
    from leakdet.crossvalidation.pooled_folds import Pooled
    from leakdet.evaluation.metrics_json import metrics_content, tables_of
    from leakdet.evaluation.split_scores import scored_of
    from leakdet.reporting.report import write_results
    from leakdet.reporting.report_input import ReportInput

    pooled = Pooled.of(outcomes, view)
    windows = np.concatenate([outcome.window_prob(view) for outcome in outcomes])
    scored = scored_of(
        view.take(pooled.row, HELD_OUT), windows, pooled.is_leak, pooled.score, pooled.threshold
    )
    found, settings = content["crossval"][protocol], content["settings"]
    columns = [] if group_by == [RECORDING] else group_by
    drawn = columns if found["recording"]["intervals"]["unit"] == "group" else []
    tables = {HELD_OUT: tables_of(scored, group_by=drawn)}
    metrics = metrics_content(tables, None, columns, audit=found["audit"], settings=settings)
    repeats = settings["crossval"]["repeats"]
    title = f"cross-validation, {protocol}" + (
        f", the first of {repeats} repeats" if repeats > 1 else ""
    )
    print(f"{protocol}:")
    write_results(folder / protocol, ReportInput(title, {HELD_OUT: scored}, metrics))


def main() -> None:
    paths, free_keys = (
        ("data.store", "data.cache", "crossval.out"),
        ("crossval.where", "crossval.protocols"),
    )
    open_door("crossval", CrossvalConfig, crossval, paths, free_keys)


if __name__ == "__main__":
    main()
