"""Describes a path: a model, a run, several runs, a store, or a folder of parts."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from leakdet.cli.cards import (
    UNJUDGED,
    Card,
    Fact,
    moment_text,
    network_text,
    rates_text,
    recordings_text,
    rule_text,
    runs_text,
    sensor_text,
    signal_text,
)
from leakdet.cli.compose import default_values, flat
from leakdet.cli.help import plain
from leakdet.cli.past_runs import arguments_of
from leakdet.core.errors import InputError, counted, first_few
from leakdet.core.files import as_input_error, megabytes, read_json, store_is_sealed
from leakdet.detection.source_rates import SourceRates
from leakdet.storage.ailh import FILES, is_ailh
from leakdet.storage.hdf5 import REBUILD
from leakdet.storage.model_card import (
    MODEL_FILES,
    MODEL_SUFFIXES,
    file_hash,
    find_model,
    has_checksums,
    model_kind,
    read_card,
)
from leakdet.storage.opening import open_split, split_names
from leakdet.storage.overlap import group_values, values_sentences
from leakdet.storage.store import StoreSplit, open_leakdet_split
from leakdet.tables.read import read_csv

STORES = (".h5", ".hdf5")
KNOWN = (
    "a model file (.safetensors, .onnx), a checkpoint (.ckpt), a store (its folder or an .h5 "
    "file), or the folder of a training, search, cross-validation, evaluation or of parts"
)
Facts = Iterator[Fact | Card]  # a run has the card of its model
UNVERIFIED = "not verified: the file has no checksum"
# said elsewhere in the card, or of no use to who reads it
UNSHOWN = ("data.store", "data.cache", "demo", "log", "logger", "resume", "signal")
WARNINGS = 5  # that are shown
LEFT_OUT = 3  # recordings left out that are named


def describe(path: Path) -> Card:
    """The card of a model, a store, a folder of parts, or the folder of one or several runs."""
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder. info takes {KNOWN}.")
    try:
        if path.is_dir():
            return _describe_folder(path)
        if model_kind(path) in MODEL_SUFFIXES:
            return describe_model(path)
        if path.suffix.lower() in STORES:
            return Card("split", path, list(_split_facts(path)))
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        reason = f"holds files that leakdet did not write, or that are damaged ({error!r})"
        raise InputError(f"{path}: {reason}.") from error
    raise InputError(
        f"{path}: a {path.suffix or 'file'} is nothing of leakdet. info takes {KNOWN}."
    )


def _describe_folder(folder: Path) -> Card:
    for kind, (facts, marks) in FOLDERS.items():
        if any(any(folder.glob(mark)) for mark in marks):
            return Card(kind, folder, list(facts(folder)))
    names = first_few(sorted(inside.name for inside in folder.iterdir())) or "nothing"
    raise InputError(f"{folder}: nothing of leakdet; it holds {names}. info takes {KNOWN}.")


def describe_model(path: Path) -> Card:
    """A model file or a checkpoint: the description in it, and its licence where it has one."""
    licence = None
    if model_kind(path) == ".safetensors":
        description = read_card(path)
    elif model_kind(path) == ".onnx":
        from leakdet.exporting.file import LICENCE_KEY, read_onnx

        model = read_onnx(path)
        description, licence = model.card, model.metadata.get(LICENCE_KEY)
    else:
        from leakdet.storage.model_file import read_model  # imports torch

        description = read_model(path)[0]
    description |= {"hash": file_hash(path), "licence": licence}
    return Card("model", path, list(_model_facts(path, description)), description)


def _model_facts(path: Path, model: Mapping[str, Any]) -> Facts:
    training, settings = model.get("training", {}), model.get("training", {}).get("settings") or {}
    yield Fact("model", f"{path} ({megabytes(path.stat().st_size)})", str(path))
    yield Fact("what", network_text(model))
    if exported := model.get("exported"):
        source = f"from model {exported['from']} by {exported['by']}"
        yield Fact("onnx", f"from sound to verdict, {model['precision']}; {source}", exported)
        yield Fact("licence", model["licence"] or "not stated by whoever exported the model")
    torch = training.get("versions", {}).get("torch")
    by = model.get("created_by", "an unknown version") + (f", torch {torch}" if torch else "")
    made = f"{moment_text(model.get('created_at'))} by {by}; known as {model['hash']}"
    yield Fact("made", made, {key: model.get(key) for key in ("created_at", "created_by", "hash")})
    verified = has_checksums(path)
    yield Fact("intact", "yes, by its checksum" if verified else UNVERIFIED, verified)
    yield Fact("from", _origin_text(training))
    yield from _lineage(model.get("lineage", ()))
    yield Fact("signal", signal_text(model["signal"]), model["signal"])
    yield Fact("decides", rule_text(model["decision_rule"]), model["decision_rule"])
    if sources := SourceRates.from_json(model.get("source_rates")):
        yield Fact("sources", f"files of {sources.known_text}", sources.to_json())
    yield from _evaluation(model)
    yield Fact("settings", settings_text(settings), settings)


def _origin_text(training: Mapping[str, Any]) -> str:
    if "converted_from" in training:
        return f"{training['converted_from']}, weights of AILH"
    store = training.get("store") or _store_in_settings(training)
    numbers = recordings_text(training)
    epoch = training.get("epoch")
    best = "" if epoch is None else f"; weights of epoch {epoch + 1}"
    return f"{store}{': ' if numbers else ''}{numbers}{best}"


def _store_in_settings(training: Mapping[str, Any]) -> str:
    """The store by the settings, which a checkpoint keeps."""
    data = (training.get("settings") or {}).get("data")
    if data is None:
        return "a store that the file does not name"
    stores = ", ".join(data["stores"])
    return str(data["store"] or stores or "the demo, synthetic recordings")


def _lineage(steps: Sequence[Mapping[str, Any]]) -> Facts:
    """What the model has learnt since a first training, the latest step first."""
    for number, step in reversed(list(enumerate(steps, 1))):
        unverified = step.get("unverified")
        extra = f" and {unverified} not verified" if unverified else ""
        verdict = f"{step['verdict']}; " if step.get("verdict") else ""
        yield Fact(
            "learnt" if number == len(steps) else "",
            f"{number}. {moment_text(step['at'])}: {step['leak']} with a leak and "
            f"{step['no_leak']} without{extra}, of {step['new']} ({step['from']}); {verdict}"
            f"parent {step['parent']} ({step['parent_path']})",
            steps,
        )


def _evaluation(model: Mapping[str, Any]) -> Facts:
    """The model's own verdict with its cautions, and the metrics that it rests on."""
    verdict, metrics = model.get("verdict"), model.get("metrics") or {}
    if verdict:
        text = f"{verdict['label']} ({verdict['split'].replace('_', ' ')}). {verdict['sentence']}"
        yield Fact("verdict", text, verdict)
        yield from (Fact("", caution) for caution in verdict["cautions"])
    else:
        yield Fact("verdict", UNJUDGED)
    for split, tables in metrics.items():
        yield Fact(split, rates_text(tables["recording"]), tables)
        for row in tables["sensors"]:
            yield Fact("", f"{sensor_text(row)}: {rates_text(row)}")
    if metrics:
        yield Fact("", "(of recordings, with 95 % intervals)")


def settings_text(settings: Mapping[str, Any]) -> str:
    """The settings of a training that differ from the defaults, as a command line has them."""
    if not settings:
        return "unknown: the file does not keep them"
    defaults = default_values("train")
    changed = [
        f"{name}={plain(value)}"
        for name, value in flat(settings)
        if not any(name == hidden or name.startswith(f"{hidden}.") for hidden in UNSHOWN)
        and not isinstance(value, Mapping)
        and name in defaults
        and defaults[name] != value
    ]
    return f"the defaults, but {' '.join(changed)}" if changed else "the defaults"


def _run_facts(folder: Path) -> Facts:
    """A training or a learning, and its model."""
    yield Fact("run", str(folder))
    arguments = arguments_of(folder)
    if arguments is not None:
        door = "learn" if _learns(arguments) else "train"
        yield Fact("command", f"leakdet {door} {shlex.join(arguments)}".rstrip())
    yield Fact("state", _state(folder, arguments or []))
    if (report := folder / "report.html").exists():
        yield Fact("report", str(report))
    path = folder / "warnings.txt"
    warnings = path.read_text("utf-8", "replace").splitlines() if path.exists() else []
    yield from (Fact("warning", warning) for warning in warnings[:WARNINGS])
    if len(warnings) > WARNINGS:
        yield Fact("", f"and {len(warnings) - WARNINGS} more, in {path}")
    if model := find_model(folder):
        yield describe_model(model)


def _learns(arguments: Sequence[str]) -> bool:
    return any(argument.startswith("learn.new=") for argument in arguments)


def _state(folder: Path, arguments: Sequence[str]) -> str:
    if (folder / MODEL_FILES[0]).exists():
        return "finished"
    history, what, epochs = folder / "history.csv", "the history of a training", 0
    if history.exists():
        rows = read_csv(history, what)
        with as_input_error(history, what):
            epochs = max((int(float(row["epoch"])) + 1 for row in rows), default=0)
    if not any((folder / "checkpoints").glob("*.ckpt")):
        return "not finished, without a checkpoint: it runs still, or ended before it wrote one"
    if _learns(arguments):
        return "not finished: if it runs no more, repeat the command in another folder"
    again = f"leakdet train resume={shlex.quote(str(folder))}"
    checked = counted(epochs, "epoch")
    return f"not finished, {checked} checked. If it runs no more, continue it: {again}"


def _runs_facts(folder: Path) -> Facts:
    """A folder of trainings: a row for each, with what it was given and how good it is."""
    runs = [
        run
        for run in sorted(folder.iterdir())
        if not run.is_symlink() and any(any(run.glob(mark)) for mark in RUN)
    ]
    yield Fact("runs", f"{folder}: {len(runs)}", list(map(str, runs)))
    yield Fact("", runs_text([run_row(run) for run in runs]))
    yield Fact("", f"leakdet info {runs[-1]} shows one of them")


def run_row(folder: Path) -> tuple[str, str, str, str]:
    """Name, arguments, F1 with interval on the judged split, and verdict of a training."""
    arguments = arguments_of(folder) or []
    given, path = " ".join(arguments), folder / MODEL_FILES[0]
    if not path.is_file():
        state = _state(folder, arguments).partition(":")[0].partition(",")[0]
        return folder.name, given, "", state
    model = read_card(path)
    split, tables = list((model.get("metrics") or {"": {}}).items())[-1]
    table = tables.get("recording", {})
    f1, interval = table.get("f1"), table.get("intervals", {}).get("f1")
    ends = f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else ""
    score = "n/a" if f1 is None else f"{f1:.2f}{ends} {split}"
    return folder.name, given, score, str((model.get("verdict") or {}).get("label", "not judged"))


def _study_facts(folder: Path) -> Facts:
    """A search: its result, or how many trials it has begun."""
    yield Fact("search", str(folder))
    path = folder / "result.json"
    if not path.exists():
        begun = counted(len(list((folder / "trials").glob("*"))), "trial")
        yield Fact("state", f"not finished, {begun} begun. The same leakdet tune goes on")
        return
    result = read_json(path, "the result of a search")
    trials, best, changed = result["trials"], result["best"], _changed(path)
    yield Fact("made", moment_text(changed), changed)
    counts = ", ".join(f"{trials[name]} {name}" for name in ("complete", "pruned", "fail"))
    yield Fact("trials", f"{counts} (trials.csv lists them)", trials)
    value = f"{result['objective']} {best['value']:.4f}"
    yield Fact("best", f"trial {best['trial']}: {value} on val", best)
    params = " ".join(f"{name}={value}" for name, value in best["params"].items())
    yield Fact("found", f"{params} (best.yaml has the settings)", best["params"])
    yield Fact("verdict", result.get("verdict", "not judged: no final models were trained"))
    if (model := folder / "best").is_dir():
        yield Fact("model", f"leakdet info {model} shows the tuned model", str(model))


def _crossval_facts(folder: Path) -> Facts:
    """A cross-validation: its protocols, or how many folds it has done."""
    settings = read_json(folder / "crossval.json", "the settings of a cross-validation")
    yield Fact("folds", str(folder))
    yield Fact("from", settings["settings"]["data"]["store"])
    path = folder / "metrics.json"
    if not path.exists():
        done = counted(len(list((folder / "folds").glob("*.json"))), "fold")
        again = f"leakdet crossval … crossval.out={shlex.quote(str(folder))}"
        yield Fact("state", f"not finished, {done} done; to continue: {again}")
        return
    metrics = read_json(path, "the metrics of a cross-validation")
    yield _made(metrics)
    for name, protocol in metrics["crossval"].items():
        table, findings = protocol["recording"], protocol["audit"]["findings"]
        value = {"name": name, "folds": len(protocol["folds"]), "recording": table}
        yield Fact("protocol", f"{name}, {counted(value['folds'], 'fold')}", value)
        yield Fact("", rates_text(table))
        yield from (Fact("audit", finding) for finding in findings)
        yield Fact("report", str(folder / name / "report.html"))


def _made(content: Mapping[str, Any]) -> Fact:
    value = {name: content[name] for name in ("created_at", "created_by")}
    return Fact("made", f"{moment_text(content['created_at'])} by {content['created_by']}", value)


def _evaluation_facts(folder: Path) -> Facts:
    """A folder that `evaluate --out` wrote."""
    metrics = read_json(folder / "metrics.json", "the metrics of an evaluation")
    yield Fact("measured", str(folder))
    yield _made(metrics)
    yield from (Fact(name, str(metrics[name])) for name in ("model", "store") if name in metrics)
    for split in metrics["splits"]:
        table = metrics[split]["recording"]
        yield Fact(split, rates_text(table), table)
    audit = metrics.get("audit") or {}
    yield from (Fact("audit", finding) for finding in audit.get("findings", []))
    yield Fact("report", str(folder / "report.html"))


def _parts_facts(folder: Path) -> Facts:
    """A folder that `predict --parts` began: its model, its rule, and how far it has come."""
    content = read_json(folder / "parts.json", "the description of a folder of parts")
    model, rule, outcome = content["model"], content["decision_rule"], content["outcome"]
    yield Fact("parts", str(folder))
    yield _made({"created_at": content["started_at"], "created_by": content["created_by"]})
    yield Fact("model", f"{model['path']}, known as {model['hash']}", model)
    yield Fact("decides", rule_text(rule), rule)
    if outcome is None:
        yield Fact("state", "not finished: the same leakdet predict goes on")
        return
    decisions = ", ".join(f"{count} {name}" for name, count in outcome["decisions"].items())
    recordings = f"{counted(outcome['recordings'], 'recording')} ({decisions})"
    ended = moment_text(outcome["finished_at"])
    yield Fact("state", f"finished {ended}: {recordings}", outcome)


def _store_facts(store: Path) -> Facts:
    """A store's folder, of leakdet or AILH."""
    splits = [open_split(store, name) for name in split_names(store)]
    if not splits:
        raise InputError(f"{store}: holds HDF5 files, but none of them is a split of a store.")
    files = [path for split in splits for path in split.files]
    path = store / "build.json"
    build = read_json(path, "the report of a build") if path.exists() else {}
    size = megabytes(sum(path.stat().st_size for path in files))
    yield Fact("store", f"{store} ({size})", str(store))
    yield from _store_origin(store, build, _changed(files[0]))
    yield from _contents(splits)
    columns = group_values(splits)
    yield from (Fact("group", sentence) for sentence in values_sentences(columns))
    if not columns:
        yield Fact("group", "none: no sites or sensors are named")
    yield from _reading(splits[0], files)
    yield from _remarks(build)


def _split_facts(path: Path) -> Facts:
    """One HDF5 file of a store."""
    ailh = {file: name for name, file in FILES.items()}
    name = ailh.get(path.name) or path.stem.partition("-")[0]
    if path.name in ailh:
        split = open_split(path.parent, name)
    else:
        split = open_leakdet_split(path.parent, name, [path])
    yield Fact("split", f"{path} ({megabytes(path.stat().st_size)})", str(path))
    yield Fact("made", moment_text(_changed(path)), _changed(path))
    yield from _contents([split])
    yield from _reading(split, [path])
    yield Fact("store", f"leakdet info {path.parent} shows the whole store", str(path.parent))


def _store_origin(store: Path, build: Mapping[str, Any], changed: str) -> Facts:
    files = f"files of {moment_text(changed)}"
    if is_ailh(store):
        yield Fact("made", f"by the scripts of AILH; {files}", changed)
        return
    made = {"created_at": build.get("created_at"), "created_by": build.get("created_by")}
    when = moment_text(build["created_at"]) if "created_at" in build else files
    yield Fact("made", f"{when} by {build.get('created_by', 'an unknown version')}", made)
    settings = build.get("settings", {})
    yield Fact("from", str(settings.get("source", "unknown: there is no build.json")))
    if split := settings.get("split"):
        columns = split["group_by"]
        how = f"by {' and '.join(columns)}, whole groups" if columns else "recording by recording"
        yield Fact("splits", f"{how} (split.group_by=[{','.join(columns)}])", split)


def _contents(splits: Sequence[StoreSplit]) -> Facts:
    leaks = list(splits[0].leak_labels)
    unsaid = "not said by the store (labels.leak; by default LEAK)"
    yield Fact("leak", ", ".join(leaks) or unsaid, leaks)
    for split in splits:
        labels = sorted(Counter(np.array(split.label_names)[split.label_id].tolist()).items())
        seconds = float(split.numbers("duration_s", np.nan).sum())
        hours = "" if np.isnan(seconds) else f", {seconds / 3600:.2f} h"
        counts = ", ".join(f"{count} {label}" for label, count in labels)
        yield Fact(
            split.name,
            f"{counted(split.recordings, 'recording')} ({counts}), "
            f"{counted(split.windows, 'window')}{hours}",
            {
                "recordings": split.recordings,
                "labels": dict(labels),
                "windows": split.windows,
                "seconds": None if np.isnan(seconds) else seconds,
            },
        )


def _reading(split: StoreSplit, files: Sequence[Path]) -> Facts:
    """Whether the files are whole, and how their mel was made."""
    verified = all(store_is_sealed(path, REBUILD) for path in files)
    checked = "yes, by its checksum; its mel is compared when it is read"
    yield Fact("intact", checked if verified else UNVERIFIED, verified)
    if split.signal is None:
        yield Fact("signal", f"unknown: {split.signal_unknown}")
    else:
        signal = {**vars(split.signal), "hash": split.signal.hash}
        yield Fact("signal", f"{signal_text(signal)} (hash {split.signal.hash})", signal)


def _remarks(build: Mapping[str, Any]) -> Facts:
    yield from (Fact("note", remark) for remark in build.get("remarks", []))
    if left_out := build.get("left_out"):
        many = counted(len(left_out), "recording")
        yield Fact("left out", f"{many} (build.json lists all)", left_out)
        for item in left_out[:LEFT_OUT]:
            yield Fact("", f"{item['path']}: {item['reason']}")


def _changed(path: Path) -> str:
    """The time of a file's last change, where the file does not tell when it was made."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat()


RUN = (".hydra/overrides.yaml", "checkpoints", *MODEL_FILES)
# kind of a folder: its facts, and the files of which it has one
FOLDERS: dict[str, tuple[Callable[[Path], Facts], Sequence[str]]] = {
    # the journal is that of a study that 0.1.0 began
    "study": (_study_facts, ("study.db", "study.journal", "result.json", "best.yaml")),
    "crossval": (_crossval_facts, ("crossval.json",)),
    "store": (_store_facts, ("*.[hH]5",)),
    "run": (_run_facts, RUN),
    "evaluation": (_evaluation_facts, ("metrics.json",)),
    "parts": (_parts_facts, ("parts.json",)),
    "runs": (_runs_facts, [f"*/{mark}" for mark in RUN]),
}
