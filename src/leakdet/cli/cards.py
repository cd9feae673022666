"""The card of a model, for a terminal or a hub: what it is, from what it was made, how good."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from leakdet.cli.compose import default_values, flat
from leakdet.cli.help import WIDTH, plain
from leakdet.core.errors import InputError, counted
from leakdet.core.files import megabytes
from leakdet.storage.model_card import file_hash, has_checksums, model_in, model_kind, read_card

NBSP = "\u00a0"  # keeps what belongs together on one line
INDENT = 9  # names of lines have up to eight letters
NOT_VERIFIED = "not verified: an older file, without a checksum"
RATES = ("f1", "auroc", "precision", "recall", "fpr")


def line(name: str, text: str) -> list[str]:
    """One entry of a card; a text that is too long goes on below, words stay whole.

    >>> line("leak", "LEAK")
    ['leak     LEAK']
    """
    lines = textwrap.wrap(
        f"{name:<{INDENT}}{text}", WIDTH, subsequent_indent=" " * INDENT,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [shown.replace(NBSP, " ") for shown in lines]


def moment_text(moment: str | None) -> str:
    """A time of a file, ISO 8601 with its zone, as `2026-03-01 14:05 UTC`.

    >>> moment_text("2026-03-01T15:05:00+01:00"), moment_text(None)
    ('2026-03-01 14:05 UTC', 'at an unknown time')
    """
    try:
        return f"{datetime.fromisoformat(str(moment)).astimezone(UTC):%Y-%m-%d %H:%M UTC}"
    except ValueError:
        return "at an unknown time"


def changed_of(path: Path) -> str:
    """The time of a file's last change, where the file does not tell when it was made."""
    return moment_text(datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat())


def intact_text(verified: bool, but: str = "") -> str:
    """A note on the file's checksum; a file whose checksum is wrong is not shown at all.

    >>> intact_text(True), intact_text(False)
    ('yes, by its checksum', 'not verified: an older file, without a checksum')
    """
    return f"yes, by its checksum{but}" if verified else NOT_VERIFIED


def signal_text(signal: Mapping[str, Any] | None) -> str:
    """The way from audio to mel, in the words of the signal settings."""
    if not signal:
        return "unknown: nothing says how its mel was made, so it fits no audio"
    rate = signal["sample_rate_hz"]
    length, hop = signal["window_samples"] / rate, signal["window_hop_samples"] / rate
    top = signal["fmax_hz"]
    top = f"{top:g} Hz" if isinstance(top, int | float) else str(top)
    return (
        f"{rate / 1000:g} kHz, windows of {length:g} s every {hop:g} s, {signal['n_mels']} mel "
        f"bands from {signal['fmin_hz']:g} to {top}"
    )


def rates_text(table: Mapping[str, Any]) -> str:
    """The recordings of a split and the metrics on them, each with its 95 % interval."""
    counts = f"{counted(table['n'], 'recording')}, {table['positives']} with a leak"
    found = [_rate(table, key) for key in RATES if table.get(key) is not None]
    return f"{counts}: {', '.join(found)}" if found else f"{counts}; no rate is defined"


def _rate(table: Mapping[str, Any], key: str) -> str:
    interval = table.get("intervals", {}).get(key)
    ends = f"{NBSP}[{interval[0]:.2f},{NBSP}{interval[1]:.2f}]" if interval else ""
    return f"{key}{NBSP}{table[key]:.2f}{ends}"


def changed_settings(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """The settings that differ from `defaults`, both by dotted names, as a command line has them.

    >>> changed_settings({"seed": 1, "patience": 15}, {"seed": 0, "patience": 15})
    'the defaults, but seed=1'
    """
    if not settings:
        return "unknown: the file does not keep them"
    changed = [
        f"{name}={plain(value)}"
        for name, value in settings.items()
        if not isinstance(value, Mapping) and name in defaults and defaults[name] != value
    ]
    return f"the defaults, but {' '.join(changed)}" if changed else "the defaults"


def tree_size(files: Sequence[Path]) -> int:
    return sum(path.stat().st_size for path in files)


UNJUDGED = "not judged: the file does not say how good it was in its own evaluation"
# said elsewhere in the card, or of no use to who reads it
UNSHOWN = ("data.store", "data.cache", "demo", "log", "logger", "resume", "signal")


def model_lines(path: Path) -> Iterator[str]:
    """The lines of a model file or a checkpoint."""
    card = card_of(path)
    training = card.get("training", {})
    yield from line("model", f"{path} ({megabytes(path.stat().st_size)})")
    yield from line("what", network_text(card))
    yield from _exported(card, path)
    yield from line("made", _made(card, training, path))
    yield from line("intact", intact_text(has_checksums(path)))
    yield from line("from", _origin(training))
    yield from _lineage(card)
    yield from line("signal", signal_text(card["signal"]))
    yield from line("decides", rule_text(card["decision_rule"]))
    yield from _evaluation(card)
    yield from line("settings", _settings(training))


def card_of(path: Path) -> dict[str, Any]:
    """The description in a model file, a checkpoint or an `.onnx` file."""
    if model_kind(path) == ".safetensors":
        return read_card(path)
    if model_kind(path) == ".onnx":
        from leakdet.exporting.file import read_onnx

        return read_onnx(path).card
    from leakdet.storage.model_file import read_model  # imports torch

    return read_model(path)[0]


def network_text(card: Mapping[str, Any]) -> str:
    """The network, what it takes, and its classes."""
    network, classes = card["network"]["name"], _classes(card["labels"])
    shape = " x ".join(map(str, card["mel_shape"]))
    unit = card["unit"]
    return f"network {network} on {unit}s (a window is {shape}: segments, mels, frames); {classes}"


def licence_of(path: Path) -> str:
    """What an `.onnx` file says of its licence; empty for other files, which do not tell."""
    if model_kind(path) != ".onnx":
        return ""
    from leakdet.exporting.file import LICENCE_KEY, UNSTATED, read_onnx

    return read_onnx(path).metadata.get(LICENCE_KEY, UNSTATED)


def _exported(card: Mapping[str, Any], path: Path) -> Iterator[str]:
    """What an .onnx file was made from, and its licence."""
    if "exported" in card:
        source, by = card["exported"]["from"], card["exported"]["by"]
        yield from line(
            "onnx", f"from sound to verdict, {card['precision']}; from model {source} by {by}"
        )
        yield from line("licence", licence_of(path))


def _classes(labels: Mapping[str, Any]) -> str:
    """The network's classes, with the labels that its leak class stands for, if that is known."""
    names = list(labels["names"])
    leaks = labels["leak_indices"] if "leak_indices" in labels else [labels["leak_index"]]
    for index in leaks:
        meant = labels.get("leak_labels") if labels["mode"] == "binary" else ["leak"]
        names[index] += f" ({', '.join(meant)})" if meant else ""
    return ", ".join(names)


def _made(card: Mapping[str, Any], training: Mapping[str, Any], path: Path) -> str:
    versions = training.get("versions", {})
    torch = f", torch {versions['torch']}" if "torch" in versions else ""
    made_by = card.get("created_by", "an unknown version")
    return f"{moment_text(card.get('created_at'))} by {made_by}{torch}; known as {file_hash(path)}"


def _origin(training: Mapping[str, Any]) -> str:
    if "converted_from" in training:
        return f"{training['converted_from']}, weights of AILH"
    store = training.get("store") or _asked_for(training)
    numbers = counts_text(training)
    epoch = training.get("epoch")
    best = "" if epoch is None else f"; weights of epoch {epoch + 1}"
    return f"{store}{': ' if numbers else ''}{numbers}{best}"


def counts_text(training: Mapping[str, Any]) -> str:
    """How many recordings of each split it was trained with; empty where the file does not say."""
    counts = training.get("recordings") or {}
    return ", ".join(f"{counted(count, 'recording')} in {split}" for split, count in counts.items())


def _lineage(card: Mapping[str, Any]) -> Iterator[str]:
    """What the model has learnt since a first training, the latest step first."""
    for number, step in reversed(list(enumerate(card.get("lineage", ()), 1))):
        unverified = step.get("unverified")
        more = f" and {unverified} not verified" if unverified else ""
        verdict = f"{step['verdict']}; " if step.get("verdict") else ""
        yield from line(
            "learnt" if number == len(card["lineage"]) else "",
            f"{number}. {moment_text(step['at'])}: {step['leak']} with a leak and "
            f"{step['no_leak']} without{more}, of {step['new']} ({step['from']}); {verdict}"
            f"parent {step['parent']} ({step['parent_path']})",
        )


def _asked_for(training: Mapping[str, Any]) -> str:
    """The store by the settings, which a checkpoint keeps."""
    data = (training.get("settings") or {}).get("data")
    if data is None:
        return "a store that the file does not name"
    stores = ", ".join(data.get("stores") or ())
    return str(data["store"] or stores or "the demo, synthetic recordings")


def rule_text(rule: Mapping[str, Any]) -> str:
    """When a recording is called a leak, and what that was fitted on."""
    fitted = f"fitted on {rule['fitted_on']}" if rule["fitted_on"] else "not fitted"
    note = f". {rule['note']}" if rule.get("note") else ""
    return (
        f"leak where the {rule['pooling']} of the windows' leak_prob >= {rule['threshold']:.4f} "
        f"({rule['policy']}, {fitted}){note}"
    )


def _evaluation(card: Mapping[str, Any]) -> Iterator[str]:
    """The model's own verdict with its cautions, and the metrics that it rests on."""
    verdict, metrics = card.get("verdict"), card.get("metrics") or {}
    if verdict:
        yield from line(
            "verdict", f"{verdict['label']} ({verdict['split']}). {verdict['sentence']}"
        )
        for caution in verdict["cautions"]:
            yield from line("", caution)
    else:
        yield from line("verdict", UNJUDGED)
    for split, tables in metrics.items():
        yield from line(split, rates_text(tables["recording"]))
        for row in tables.get("sensors", []):  # files of leakdet 0.1.0 do not tell them
            yield from line(
                "", f"{row['column']} {row['value'] or '(not given)'}: {rates_text(row)}"
            )
    if metrics:
        yield from line("", "(of recordings, with 95 % intervals)")


def _settings(training: Mapping[str, Any]) -> str:
    settings = dict(flat(training.get("settings") or {}))
    shown = {
        name: value
        for name, value in settings.items()
        if not any(name == left or name.startswith(f"{left}.") for left in UNSHOWN)
    }
    return changed_settings(shown, default_values("train"))


UNKNOWN = "unknown"
NAMES = {"f1": "F1", "auroc": "AUROC", "fpr": "false positive rate"}
CHOOSING = ("train", "val")
TAGS = ("water", "leak-detection", "acoustics", "leakdet")


def hub_card(path: Path) -> str:
    """The card of a model file, a checkpoint, an `.onnx` file, or the model of a run's folder.

    What the file does not say is said to be unknown. Of places only the last part is told.
    """
    model = model_in(path)
    if not model.exists():
        raise InputError(f"{path}: there is no such model file.")
    card = card_of(model)
    head = "\n".join(_head(card, _licence(model)))
    return f"---\n{head}\n---\n\n" + "\n".join(_text(card, model)).rstrip()


def _licence(model: Path) -> str:
    from leakdet.exporting.file import UNSTATED

    told = licence_of(model)
    return UNKNOWN if told in ("", UNSTATED) else told


def _head(card: Mapping[str, Any], licence: str) -> Iterator[str]:
    """The lines of the YAML; texts are JSON, which is YAML."""
    yield f"license: {json.dumps(licence, ensure_ascii=False)}"
    yield "library_name: leakdet"
    yield "pipeline_tag: audio-classification"
    yield f"tags: {json.dumps(list(TAGS))}"
    results = list(_results(card))
    if results:
        yield "metrics:"
        yield from (f"- {name}" for name in RATES)
        yield "model-index:"
        yield f"- name: {json.dumps('leakdet ' + card['network']['name'])}"
        yield "  results:"
        yield from results


def _results(card: Mapping[str, Any]) -> Iterator[str]:
    name = json.dumps(_store(card), ensure_ascii=False)
    for split, tables in (card.get("metrics") or {}).items():
        if split in CHOOSING:  # no evidence: it chose the weights and the threshold
            continue
        table = tables["recording"]
        told = [key for key in RATES if table.get(key) is not None]
        if not told:
            continue
        yield "  - task: {type: audio-classification, name: leak detection}"
        yield f"    dataset: {{type: leakdet-store, name: {name}, split: {json.dumps(split)}}}"
        yield "    metrics:"
        for key in told:
            interval = table.get("intervals", {}).get(key)
            ends = f", 95 % interval {interval[0]:.2f} to {interval[1]:.2f}" if interval else ""
            about = f"{NAMES.get(key, key)} of {counted(table['n'], 'recording')}{ends}"
            yield f"    - {{type: {key}, value: {table[key]:.4f}, name: {json.dumps(about)}}}"


def _text(card: Mapping[str, Any], model: Path) -> Iterator[str]:
    yield "# A leak detector for water pipes\n"
    yield (
        "It listens to a recording of a pipe and says *leak*, *no leak* or *undecided*, with a "
        "leak probability for every window. It says neither how large a leak is nor where.\n"
    )
    yield "## What it is\n"
    yield f"- {network_text(card)}"
    yield f"- sound: {signal_text(card['signal'])}"
    yield f"- decides: {rule_text(card['decision_rule'])}"
    made_by = card.get("created_by", "an unknown version of leakdet")
    yield f"- made {moment_text(card.get('created_at'))} by {made_by}; file {file_hash(model)}\n"
    yield "## What it was trained on\n"
    yield from _trained_on(card)
    yield "\n## How good it is, and where\n"
    yield from _how_good(card)
    yield "\n## What it must not be used for\n"
    yield from (f"- {sentence}" for sentence in _warnings(card))
    yield "\n## How to use it\n"
    name = model.name
    yield f"```\nleakdet predict {name} recordings --out verdicts.csv\n```\n"
    yield (
        "Judge it on recordings of yours first: "
        f"`leakdet evaluate {name} STORE` leaves out those that it has met."
    )


def _store(card: Mapping[str, Any]) -> str:
    training = card.get("training", {})
    if "converted_from" in training:
        return "a data set of AILH"
    data = (training.get("settings") or {}).get("data", {})
    if data.get("stores"):
        return ", ".join(Path(store).name for store in data["stores"])
    if data.get("store", UNKNOWN) in ("", None):
        return "the demo of leakdet, synthetic recordings"
    store = training.get("store") or data.get("store")
    return Path(store).name if store else UNKNOWN


def _trained_on(card: Mapping[str, Any]) -> Iterator[str]:
    numbers = counts_text(card.get("training", {})) or "number of recordings unknown"
    yield f"- data: {_store(card)}; {numbers}"
    yield f"- labels: {_labels(card['labels'])}"
    yield f"- pipes, sites and sensors: {UNKNOWN} to the file. Add here what you know of them."
    for step in card.get("lineage", ()):
        yield (
            f"- learnt {moment_text(step['at'])}: {step['leak']} with a leak, {step['no_leak']} "
            f"without ({step.get('verdict') or 'not compared'})"
        )


def _labels(labels: Mapping[str, Any]) -> str:
    leak = ", ".join(labels.get("leak_labels") or ["leak"])
    return f"a leak is {leak}; classes {', '.join(labels['names'])}"


def _how_good(card: Mapping[str, Any]) -> Iterator[str]:
    verdict, metrics = card.get("verdict"), card.get("metrics") or {}
    if verdict:
        yield f"**{verdict['label']}** ({verdict['split']}). {verdict['sentence']}\n"
        yield from (f"- {caution}" for caution in verdict["cautions"])
        yield ""
    else:
        yield f"{UNJUDGED[0].upper()}{UNJUDGED[1:]}.\n"
    if metrics:
        yield "| recordings of | with 95 % intervals |\n|---|---|"
        for split, tables in metrics.items():
            name = f"{split}, which chose weights and threshold" if split in CHOOSING else split
            yield f"| {name} | {rates_text(tables['recording'])} |"
            for row in tables.get("sensors", []):
                name = f"{row['column']} {row['value'] or '(not given)'}"
                yield f"| {split}, {name} | {rates_text(row)} |"


def _warnings(card: Mapping[str, Any]) -> Iterator[str]:
    verdict = card.get("verdict")
    if verdict is None:
        yield "Any decision, before it is evaluated: how good it is, nobody has measured."
    elif verdict["grade"] != "good":
        yield "Deciding on a dig by it alone: its own evaluation does not bear that."
    else:
        yield "Deciding without other evidence where a needless dig or a missed leak is dear."
    signal = card.get("signal")
    if signal:
        rate = f"{signal['sample_rate_hz']:,} Hz"
        yield f"Recordings of a lower rate than {rate}: their upper bands are empty."
    if "spectral_reference" in card:
        yield (
            "Pipes, sensors and sounds unlike those of its training. It leaves many such "
            "recordings undecided (`familiarity` above 1), but not reliably all."
        )
    else:
        yield (
            "Pipes, sensors and sounds unlike those of its training. It decides them like any "
            "other: the file keeps nothing to tell them by."
        )
    yield (
        "Reading `leak_prob` as how likely a leak is, where leaks are rarer than in its validation "
        "recordings."
    )
