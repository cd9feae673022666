"""The cards of what commands leave in runs/: trainings, sweeps, searches, cross-validations."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from leakdet.cli.card_lines import changed_of, line, moment_text, rates_text
from leakdet.cli.model_lines import model_lines
from leakdet.cli.past_runs import arguments_of
from leakdet.cli.runs_table import runs_text
from leakdet.errors import counted
from leakdet.storage.csv_file import read_csv
from leakdet.storage.json_file import read_json
from leakdet.storage.model_card import read_card
from leakdet.storage.model_place import MODEL_FILES, find_model
from leakdet.storage.readable import understood

WARNINGS = 5  # that are shown


def run_lines(folder: Path) -> Iterator[str]:
    """The lines of the folder of a training or a learning, and those of its model.

    Raises:
        InputError: its model is damaged.
    """
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
