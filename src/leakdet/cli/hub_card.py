"""The card of a model as model hubs show it: Markdown behind a head of YAML."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from leakdet.cli.card_lines import RATES, moment_text, rates_text, signal_text
from leakdet.cli.model_lines import (
    UNJUDGED,
    card_of,
    counts_text,
    licence_of,
    network_text,
    rule_text,
)
from leakdet.errors import InputError, counted
from leakdet.storage.model_card import file_hash
from leakdet.storage.model_place import model_in

UNKNOWN = "unknown"
NAMES = {"f1": "F1", "auroc": "AUROC", "fpr": "false positive rate"}
CHOOSING = ("train", "val")
TAGS = ("water", "leak-detection", "acoustics", "leakdet")


def hub_card(path: Path) -> str:
    """The card of a model file, a checkpoint, an `.onnx` file, or the model of a run's folder.

    What the file does not say is said to be unknown. Of places only the last part is told.

    Raises:
        InputError: there is no model, or it is damaged.
    """
    model = model_in(path)
    if not model.exists():
        raise InputError(f"{path}: there is no such model file.")
    card = card_of(model)
    head = "\n".join(_head(card, _licence(model)))
    return f"---\n{head}\n---\n\n" + "\n".join(_text(card, model)).rstrip()


def _licence(model: Path) -> str:
    from leakdet.exporting.onnx_file import UNSTATED

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
