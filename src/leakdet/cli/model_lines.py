"""The card of a model: what it is, when and from what it was made, how good, its settings."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from leakdet.cli.card_lines import (
    changed_settings,
    intact_text,
    line,
    moment_text,
    rates_text,
    signal_text,
)
from leakdet.cli.composition import default_values, flat
from leakdet.errors import counted
from leakdet.storage.disk_space import megabytes
from leakdet.storage.model_card import file_hash, has_checksums, read_card
from leakdet.storage.model_place import model_kind

UNJUDGED = "not judged: the file does not say how good it was in its own evaluation"
# said elsewhere in the card, or of no use to who reads it
UNSHOWN = ("data.store", "data.cache", "demo", "log", "logger", "resume", "signal")


def model_lines(path: Path) -> Iterator[str]:
    """The lines of a model file or a checkpoint.

    Raises:
        InputError: it cannot be read, or is no model of leakdet.
    """
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
        from leakdet.exporting.onnx_file import read_onnx

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
    from leakdet.exporting.onnx_file import LICENCE_KEY, UNSTATED, read_onnx

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
    surrogates = training.get("surrogates")
    more = f" and {counted(surrogates, 'surrogate')}" if surrogates else ""
    epoch = training.get("epoch")
    best = "" if epoch is None else f"; weights of epoch {epoch + 1}"
    return f"{store}{': ' if numbers else ''}{numbers}{more}{best}"


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
