"""The text of `leakdet info` for a path: a store, a model, a run, or several runs."""

import shlex
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from leakdet.cli.cards import (
    changed_of,
    intact_text,
    line,
    model_lines,
    moment_text,
    rates_text,
    signal_text,
    tree_size,
)
from leakdet.cli.help import WIDTH
from leakdet.cli.past_runs import arguments_of
from leakdet.core.errors import InputError, counted, first_few
from leakdet.core.files import megabytes, read_json, store_is_sealed, understood
from leakdet.storage.ailh import FILES, is_ailh
from leakdet.storage.hdf5 import REBUILD
from leakdet.storage.model_card import (
    MODEL_FILES,
    MODEL_SUFFIXES,
    find_model,
    model_kind,
    read_card,
)
from leakdet.storage.opening import open_split, split_names
from leakdet.storage.overlap import group_values, values_sentence
from leakdet.storage.store import StoreSplit, open_leakdet_split
from leakdet.tables.read import read_csv

HEADINGS = ("run", "settings", "F1 (95 % interval)", "verdict")


def runs_text(rows: Sequence[tuple[str, str, str, str]]) -> str:
    """Trainings beside each other: name, what each was given, its score and its verdict.

    What all of them were given stands below the table, once.
    """
    words = [given.split(" ") for _, given, _, _ in rows]
    common = [word for word in words[0] if len(rows) > 1 and all(word in of for of in words)]
    texts = [
        (name, " ".join(word for word in given if word not in common), score, verdict)
        for (name, _, score, verdict), given in zip(rows, words, strict=True)
    ]
    width = max(WIDTH, Console().width)
    # the longest word of each column, which a table would break where they do not fit
    longest = [
        max(len(word) for text in column for word in ("", *text.split()))
        for column in zip(HEADINGS, *texts, strict=True)
    ]
    fits = sum(longest) + 3 * len(longest) + 1 <= width
    shown = _table(texts, longest, width) if fits else "\n".join(_entries(texts, width))
    shared = f"\nAll of them: {' '.join(common)}" if any(common) else ""
    return shown + shared


def _table(texts: Sequence[Sequence[str]], longest: Sequence[int], width: int) -> str:
    """The table; columns have the width of their longest word, and share what is left."""
    needed = [max(map(len, column)) for column in zip(HEADINGS, *texts, strict=True)]
    widths = list(longest)
    for _ in range(width - sum(widths) - 3 * len(widths) - 1):
        narrowest = max(range(len(widths)), key=lambda number: needed[number] / widths[number])
        widths[narrowest] += needed[narrowest] > widths[narrowest]
    table = Table(title="Trainings", title_justify="left")
    for heading, column_width in zip(HEADINGS, widths, strict=True):
        table.add_column(heading, width=column_width)
    for row in texts:
        table.add_row(*row)
    console = Console(highlight=False, markup=False, width=width)
    with console.capture() as capture:
        console.print(table)
    return capture.get().rstrip()


def _entries(texts: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """The rows below one another, where they are too wide for a table."""
    yield "Trainings"
    for name, *others in texts:
        yield name
        for heading, text in zip(("settings", "F1", "verdict"), others, strict=True):
            yield from textwrap.wrap(
                f"  {heading:<9}{text}", width, subsequent_indent=" " * 11,
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip


WARNINGS = 5  # that are shown


def run_lines(folder: Path) -> Iterator[str]:
    """The lines of the folder of a training or a learning, and those of its model."""
    yield from line("run", str(folder))
    given = arguments_of(folder)
    if given is not None:
        door = "learn" if _learns(given) else "train"
        yield from line("command", f"leakdet {door} {shlex.join(given)}".rstrip())
    yield from line("state", _state(folder, given or []))
    if (folder / "report.html").exists():
        yield from line("report", str(folder / "report.html"))
    warned = folder / "warnings.txt"
    warnings = warned.read_text("utf-8", "replace").splitlines() if warned.exists() else []
    for warning in warnings[:WARNINGS]:
        yield from line("warning", warning)
    if len(warnings) > WARNINGS:
        yield from line("", f"and {len(warnings) - WARNINGS} more, in {warned}")
    model = find_model(folder)
    if model is not None:
        yield from model_lines(model)


def _learns(given: Sequence[str]) -> bool:
    return any(argument.startswith("learn.new=") for argument in given)


def _state(folder: Path, given: Sequence[str]) -> str:
    if (folder / MODEL_FILES[0]).exists():
        return "finished"
    history, what, epochs = folder / "history.csv", "the history of a training", 0
    if history.exists():
        rows = read_csv(history, what)
        with understood(history, what):
            epochs = max((int(float(row["epoch"])) + 1 for row in rows), default=0)
    if not any((folder / "checkpoints").glob("*.ckpt")):
        return "not finished, without a checkpoint: it runs still, or ended before it wrote one"
    if _learns(given):
        return "not finished: if it runs no more, repeat the command in another folder"
    again = f"leakdet train resume={shlex.quote(str(folder))}"
    checked = counted(epochs, "epoch")
    return f"not finished, {checked} checked. If it runs no more, continue it: {again}"


def runs_lines(folder: Path, runs: Sequence[Path]) -> Iterator[str]:
    """The lines of a folder of trainings: one for each, with what it was given and how good."""
    yield from line("runs", f"{folder}: {len(runs)}")
    yield runs_text([run_row(run) for run in runs])
    yield from line("", f"leakdet info {runs[-1]} shows one of them")


def run_row(folder: Path) -> tuple[str, str, str, str]:
    """Name, arguments, F1 with interval on the judged split, and verdict of a training."""
    arguments = arguments_of(folder) or []
    given, model = " ".join(arguments), folder / MODEL_FILES[0]
    if not model.is_file():
        state = _state(folder, arguments).partition(":")[0].partition(",")[0]
        return folder.name, given, "", state
    card = read_card(model)
    split, tables = list((card.get("metrics") or {"": {}}).items())[-1]
    table = tables.get("recording", {})
    f1, interval = table.get("f1"), table.get("intervals", {}).get("f1")
    ends = f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else ""
    score = "n/a" if f1 is None else f"{f1:.2f}{ends} {split}"
    return folder.name, given, score, str((card.get("verdict") or {}).get("label", "not judged"))


def tune_lines(folder: Path) -> Iterator[str]:
    """The lines of a search's folder."""
    yield from line("search", str(folder))
    path = folder / "result.json"
    if not path.exists():
        trials = len(list((folder / "trials").glob("*")))
        yield from line(
            "state",
            f"not finished, {counted(trials, 'trial')} begun. The same leakdet tune goes on",
        )
        return
    result = read_json(path, "the result of a search")
    yield from line("made", changed_of(path))
    trials, best = result["trials"], result["best"]
    counts = ", ".join(f"{trials[name]} {name}" for name in ("complete", "pruned", "fail"))
    yield from line("trials", f"{counts} (trials.csv lists them)")
    yield from line(
        "best", f"trial {best['trial']}: {result['objective']} {best['value']:.4f} on val"
    )
    found = " ".join(f"{name}={value}" for name, value in best["params"].items())
    yield from line("found", f"{found} (best.yaml has the settings)")
    yield from line("verdict", result.get("verdict", "not judged: no final models were trained"))
    if (folder / "best").is_dir():
        yield from line("model", f"leakdet info {folder / 'best'} shows the tuned model")


def crossval_lines(folder: Path) -> Iterator[str]:
    """The lines of a cross-validation's folder."""
    yield from line("folds", str(folder))
    settings = read_json(folder / "crossval.json", "the settings of a cross-validation")
    store = settings["settings"]["data"]["store"]
    yield from line("from", store)
    done = len(list((folder / "folds").glob("*.json")))
    path = folder / "metrics.json"
    if not path.exists():
        again = f"leakdet crossval … crossval.out={shlex.quote(str(folder))}"
        yield from line(
            "state", f"not finished, {counted(done, 'fold')} done; to continue: {again}"
        )
        return
    metrics = read_json(path, "the metrics of a cross-validation")
    yield from line("made", f"{moment_text(metrics['created_at'])} by {metrics['created_by']}")
    for name, protocol in metrics["crossval"].items():
        yield from line("protocol", f"{name}, {counted(len(protocol['folds']), 'fold')}")
        yield from line("", rates_text(protocol["recording"]))
        for finding in protocol["audit"]["findings"]:
            yield from line("audit", finding)
        yield from line("report", str(folder / name / "report.html"))


def evaluation_lines(folder: Path) -> Iterator[str]:
    """The lines of a folder that `evaluate --out` wrote."""
    metrics = read_json(folder / "metrics.json", "the metrics of an evaluation")
    yield from line("measured", str(folder))
    yield from line("made", f"{moment_text(metrics['created_at'])} by {metrics['created_by']}")
    for name in ("model", "store"):
        if name in metrics:
            yield from line(name, str(metrics[name]))
    for split in metrics["splits"]:
        yield from line(split, rates_text(metrics[split]["recording"]))
    for finding in (metrics.get("audit") or {}).get("findings", []):
        yield from line("audit", finding)
    yield from line("report", str(folder / "report.html"))


LEFT_OUT = 3  # recordings left out that are named


def store_lines(store: Path) -> Iterator[str]:
    """The lines of a store's folder, of leakdet or AILH."""
    splits = [open_split(store, name) for name in split_names(store)]
    if not splits:
        raise InputError(f"{store}: holds HDF5 files, but none of them is a split of a store.")
    files = [path for split in splits for path in split.files]
    yield from line("store", f"{store} ({megabytes(tree_size(files))})")
    made = _build(store)
    yield from _origin(made, store, splits)
    yield from _contents(splits)
    yield from _groups(splits)
    yield from _intact(files)
    yield from line("signal", _signal(splits[0]))
    yield from _remarks(made)


def split_lines(path: Path) -> Iterator[str]:
    """The lines of one HDF5 file of a store."""
    ailh = {file: name for name, file in FILES.items()}
    name = ailh.get(path.name) or path.stem.partition("-")[0]
    split = open_split(path.parent, name) if path.name in ailh else _one(path, name)
    yield from line("split", f"{path} ({megabytes(path.stat().st_size)})")
    yield from line("made", changed_of(path))
    yield from _contents([split])
    yield from _intact([path])
    yield from line("signal", _signal(split))
    yield from line("store", f"leakdet info {path.parent} shows the whole store")


def _one(path: Path, name: str) -> StoreSplit:
    return open_leakdet_split(path.parent, name, [path])


def _build(store: Path) -> dict[str, Any]:
    """The content of build.json; empty where there is none."""
    path = store / "build.json"
    return read_json(path, "the report of a build") if path.exists() else {}


def _origin(made: dict[str, Any], store: Path, splits: Sequence[StoreSplit]) -> Iterator[str]:
    if is_ailh(store):
        yield from line(
            "made", f"by the scripts of AILH; files of {changed_of(splits[0].files[0])}"
        )
        return
    when = (
        moment_text(made["created_at"])
        if "created_at" in made
        else f"files of {changed_of(splits[0].files[0])}"
    )
    yield from line("made", f"{when} by {made.get('created_by', 'an unknown version')}")
    settings = made.get("settings", {})
    yield from line("from", str(settings.get("source", "unknown: there is no build.json")))
    split = settings.get("split", {})
    if split:
        kept = " and ".join(split["group_by"])
        how = f"by {kept}, whole groups" if kept else "recording by recording"
        yield from line("splits", f"{how} (split.group_by=[{','.join(split['group_by'])}])")


def _contents(splits: Sequence[StoreSplit]) -> Iterator[str]:
    leaks = ", ".join(splits[0].leak_labels)
    yield from line("leak", leaks or "not said by the store (labels.leak; by default LEAK)")
    for split in splits:
        counts = Counter(np.array(split.label_names)[split.label_id].tolist())
        labels = ", ".join(f"{count} {label}" for label, count in sorted(counts.items()))
        hours = split.numbers("duration_s", np.nan).sum() / 3600
        long = "" if np.isnan(hours) else f", {hours:.2f} h"
        recordings = f"{counted(split.recordings, 'recording')} ({labels})"
        yield from line(split.name, f"{recordings}, {counted(split.windows, 'window')}{long}")


def _groups(splits: Sequence[StoreSplit]) -> Iterator[str]:
    """The number of values of each group column, and the splits that share some."""
    columns = group_values(splits)
    for column, values in columns.items():
        yield from line("group", values_sentence(column, values))
    if not columns:
        yield from line("group", "none: no sites or sensors are named")


def _intact(files: Sequence[Path]) -> Iterator[str]:
    verified = all(store_is_sealed(path, REBUILD) for path in files)
    yield from line("intact", intact_text(verified, "; its mel is compared when it is read"))


def _signal(split: StoreSplit) -> str:
    if split.signal is None:
        return f"unknown: {split.signal_unknown}"
    return f"{signal_text(vars(split.signal))} (hash {split.signal.hash})"


def _remarks(made: dict[str, Any]) -> Iterator[str]:
    for remark in made.get("remarks", []):
        yield from line("note", remark)
    left_out = made.get("left_out", [])
    if left_out:
        yield from line("left out", f"{counted(len(left_out), 'recording')} (build.json lists all)")
        for item in left_out[:LEFT_OUT]:
            yield from line("", f"{item['path']}: {item['reason']}")


STORES = (".h5", ".hdf5")
KNOWN = (
    "a model file (.safetensors, .onnx), a checkpoint (.ckpt), a store (its folder or an .h5 "
    "file), or the folder of a training, search, cross-validation or evaluation"
)


def info_text(path: Path) -> str:
    """The card of a model, a store, or the folder of a run."""
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder. info takes {KNOWN}.")
    try:
        return "\n".join(_in_folder(path) if path.is_dir() else _of_file(path))
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        reason = f"holds files that leakdet did not write, or that are damaged ({error!r})"
        raise InputError(f"{path}: {reason}.") from error


def _of_file(path: Path) -> Iterator[str]:
    if model_kind(path) in MODEL_SUFFIXES:
        return model_lines(path)
    if path.suffix.lower() in STORES:
        return split_lines(path)
    raise InputError(
        f"{path}: a {path.suffix or 'file'} is nothing of leakdet. info takes {KNOWN}."
    )


def _in_folder(folder: Path) -> Iterator[str]:
    lines: Callable[[Path], Iterator[str]]
    if any((folder / name).exists() for name in ("study.journal", "result.json", "best.yaml")):
        lines = tune_lines
    elif (folder / "crossval.json").exists():
        lines = crossval_lines
    elif any(folder.glob("*.[hH]5")):
        lines = store_lines
    elif _is_run(folder):
        lines = run_lines
    elif (folder / "metrics.json").exists():
        lines = evaluation_lines
    else:
        runs = sorted(
            inside for inside in folder.iterdir() if not inside.is_symlink() and _is_run(inside)
        )
        if runs:
            return runs_lines(folder, runs)
        names = first_few(sorted(inside.name for inside in folder.iterdir())) or "nothing"
        raise InputError(f"{folder}: nothing of leakdet; it holds {names}. info takes {KNOWN}.")
    return lines(folder)


def _is_run(folder: Path) -> bool:
    marks = (".hydra/overrides.yaml", "checkpoints", *MODEL_FILES)
    return folder.is_dir() and any((folder / mark).exists() for mark in marks)
