"""A card: the facts of a model, a run or a store, as text, as Markdown for a hub, or as JSON."""

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from leakdet.cli.help import WIDTH
from leakdet.core.errors import counted

NBSP = "\u00a0"  # keeps what belongs together on one line
INDENT = 9  # names of lines have up to eight letters
RATES = ("f1", "auroc", "precision", "recall", "fpr")


@dataclass(frozen=True)
class Fact:
    """A line of a card: name, sentence, and the value that JSON has in its place, if any.

    A line without a name belongs to the one above, whose value covers it. A sentence of several
    lines, such as a table, stands as it is.
    """

    name: str
    text: str
    value: Any = None


@dataclass(frozen=True)
class Card:
    """The facts of a path in order, among them the card of a run's model.

    `kind` is model, run, runs, study, crossval, evaluation, parts, store or split; `description`
    is that of a model file.
    """

    kind: str
    path: Path
    facts: Sequence["Fact | Card"]
    description: Mapping[str, Any] = field(default_factory=dict)


def card_text(card: Card) -> str:
    """The card for a terminal: a line for each fact, long ones go on below, words stay whole."""
    return "\n".join(
        card_text(fact) if isinstance(fact, Card) else _line(fact.name, fact.text)
        for fact in card.facts
    )


def _line(name: str, text: str) -> str:
    if "\n" in text:
        return text
    lines = textwrap.wrap(
        f"{name:<{INDENT}}{text}", WIDTH, subsequent_indent=" " * INDENT,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return "\n".join(lines).replace(NBSP, " ")


def card_json(card: Card) -> str:
    """The card as one line of JSON: a value for each fact, a list where a name is repeated."""
    return json.dumps(_content(card), ensure_ascii=False, default=str)


def _content(card: Card) -> dict[str, Any]:
    values: dict[str, list[Any]] = {}
    for fact in card.facts:
        if isinstance(fact, Card):
            values[fact.kind] = [_content(fact)]
        elif fact.name:
            value = fact.text.replace(NBSP, " ") if fact.value is None else fact.value
            values.setdefault(fact.name, []).append(value)
    facts = {name: of_name[0] if len(of_name) == 1 else of_name for name, of_name in values.items()}
    return {"kind": card.kind, "path": str(card.path), **facts}


RUN_COLUMNS = ("run", "settings", "F1 (95 % interval)", "verdict")


def runs_text(rows: Sequence[tuple[str, str, str, str]]) -> str:
    """Trainings beside each other: name, what each was given, its score and its verdict.

    What all of them were given stands below the table, once.
    """
    words = [given.split(" ") for _, given, _, _ in rows]
    common = [word for word in words[0] if len(rows) > 1 and all(word in run for run in words)]
    table = Table(title="Trainings", title_justify="left")
    for heading in RUN_COLUMNS:
        table.add_column(heading, overflow="fold")
    for (name, _, score, verdict), given in zip(rows, words, strict=True):
        settings = " ".join(word for word in given if word not in common)
        table.add_row(name, settings, score, verdict)
    console = Console(highlight=False, markup=False)
    with console.capture() as capture:
        console.print(table)
    shared = f"\nAll of them: {' '.join(common)}" if any(common) else ""
    return capture.get().rstrip() + shared


def moment_text(moment: str | None) -> str:
    """A time of a file, ISO 8601 with its zone, as `2026-03-01 14:05 UTC`.

    >>> moment_text("2026-03-01T15:05:00+01:00"), moment_text(None)
    ('2026-03-01 14:05 UTC', 'at an unknown time')
    """
    try:
        return f"{datetime.fromisoformat(str(moment)).astimezone(UTC):%Y-%m-%d %H:%M UTC}"
    except ValueError:
        return "at an unknown time"


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
    rates = [_rate(table, key) for key in RATES if table.get(key) is not None]
    return f"{counts}: {', '.join(rates)}" if rates else f"{counts}; no rate is defined"


def _rate(table: Mapping[str, Any], key: str) -> str:
    interval = table.get("intervals", {}).get(key)
    ends = f"{NBSP}[{interval[0]:.2f},{NBSP}{interval[1]:.2f}]" if interval else ""
    return f"{key}{NBSP}{table[key]:.2f}{ends}"


def rule_text(rule: Mapping[str, Any]) -> str:
    """When a recording is called a leak, and what that was fitted on."""
    from leakdet.detection.decision import doubt_limits  # imports numpy

    fitted = f"fitted on {rule['fitted_on']}" if rule["fitted_on"] else "not fitted"
    note = f". {rule['note']}" if rule.get("note") else ""
    lower, upper = doubt_limits(rule["threshold"], rule.get("doubt", 0.0))
    doubt = f"; undecided between {lower:.3g} and {upper:.3g}" if lower < upper else ""
    return (
        f"leak where the {rule['pooling']} of the windows' leak_prob >= {rule['threshold']:.4f} "
        f"({rule['policy']}, {fitted}){doubt}{note}"
    )


def network_text(model: Mapping[str, Any]) -> str:
    """The network, what it takes, and its classes with the labels that a leak stands for."""
    labels, names = model["labels"], list(model["labels"]["names"])
    leaks = labels["leak_indices"]
    for index in leaks:
        meant = labels.get("leak_labels") if labels["mode"] == "binary" else ["leak"]
        names[index] += f" ({', '.join(meant)})" if meant else ""
    shape = " x ".join(map(str, model["mel_shape"]))
    return (
        f"network {model['network']['name']} on {model['unit']}s (a window is {shape}: segments, "
        f"mels, frames); {', '.join(names)}"
    )


def recordings_text(training: Mapping[str, Any]) -> str:
    """How many recordings of each split it was trained with; empty where the file does not say."""
    counts = training.get("recordings") or {}
    return ", ".join(
        f"{counted(count, 'recording')} in {split}" for split, count in counts.items() if count
    )


def sensor_text(row: Mapping[str, Any]) -> str:
    return f"{row['column']} {row['value'] or '(not given)'}"


UNJUDGED = "not judged: the file does not say how good it was in its own evaluation"
UNKNOWN = "unknown"
NAMES = {"f1": "F1", "auroc": "AUROC", "fpr": "false positive rate"}
CHOOSING = ("train", "val")
MARKDOWN = """---
{head}
---

# A leak detector for water pipes

It listens to a recording of a pipe and says *leak*, *no leak* or *undecided*, with a leak \
probability for every window. It says neither how large a leak is nor where.

## What it is

{what}

## What it was trained on

{training}

## How good it is, and where

{scores}

## What it must not be used for

{misuses}

## How to use it

```
leakdet predict {name} recordings --out verdicts.csv
```

Judge it on recordings of yours first: `leakdet evaluate {name} STORE` leaves out those that it \
has met."""


def card_markdown(card: Card) -> str:
    """A model's card as model hubs read it, Markdown behind a head of YAML.

    What the file does not say is said to be unknown. Of places only the last part is told.
    """
    model = card.description
    by = model.get("created_by", "an unknown version of leakdet")
    what = (
        network_text(model),
        f"sound: {signal_text(model['signal'])}",
        f"decides: {rule_text(model['decision_rule'])}",
        f"made {moment_text(model.get('created_at'))} by {by}; file {model['hash']}",
    )
    return MARKDOWN.format(
        head="\n".join(_head(model)),
        what=_bullets(what),
        training=_bullets(_trained_on(model)),
        scores="\n".join(_scores(model)).rstrip(),
        misuses=_bullets(_misuses(model)),
        name=card.path.name,
    )


def _bullets(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _head(model: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the YAML; texts are JSON, which is YAML."""
    yield f"license: {json.dumps(model['licence'] or UNKNOWN, ensure_ascii=False)}"
    yield "library_name: leakdet"
    yield "pipeline_tag: audio-classification"
    yield 'tags: ["water", "leak-detection", "acoustics", "leakdet"]'
    results = list(_results(model))
    if results:
        yield "metrics:"
        yield from (f"- {name}" for name in RATES)
        yield "model-index:"
        yield f"- name: {json.dumps('leakdet ' + model['network']['name'])}"
        yield "  results:"
        yield from results


def _results(model: Mapping[str, Any]) -> Iterator[str]:
    name = json.dumps(_store_name(model.get("training", {})), ensure_ascii=False)
    for split, tables in (model.get("metrics") or {}).items():
        table = tables["recording"]
        rates = [key for key in RATES if table.get(key) is not None]
        if split in CHOOSING or not rates:  # no evidence: it chose the weights and the threshold
            continue
        yield "  - task: {type: audio-classification, name: leak detection}"
        yield f"    dataset: {{type: leakdet-store, name: {name}, split: {json.dumps(split)}}}"
        yield "    metrics:"
        for key in rates:
            interval = table.get("intervals", {}).get(key)
            ends = f", 95 % interval {interval[0]:.2f} to {interval[1]:.2f}" if interval else ""
            about = f"{NAMES.get(key, key)} of {counted(table['n'], 'recording')}{ends}"
            yield f"    - {{type: {key}, value: {table[key]:.4f}, name: {json.dumps(about)}}}"


def _store_name(training: Mapping[str, Any]) -> str:
    if "converted_from" in training:
        return "a data set of AILH"
    data = (training.get("settings") or {}).get("data", {})
    if data.get("stores"):
        return ", ".join(Path(store).name for store in data["stores"])
    if data.get("store", UNKNOWN) in ("", None):
        return "the demo of leakdet, synthetic recordings"
    store = training.get("store") or data.get("store")
    return Path(store).name if store else UNKNOWN


def _trained_on(model: Mapping[str, Any]) -> Iterator[str]:
    training, labels = model.get("training", {}), model["labels"]
    numbers = recordings_text(training) or "number of recordings unknown"
    leak = ", ".join(labels.get("leak_labels") or ["leak"])
    yield f"data: {_store_name(training)}; {numbers}"
    yield f"labels: a leak is {leak}; classes {', '.join(labels['names'])}"
    yield f"pipes, sites and sensors: {UNKNOWN} to the file. Add here what you know of them."
    for step in model.get("lineage", ()):
        yield (
            f"learnt {moment_text(step['at'])}: {step['leak']} with a leak, {step['no_leak']} "
            f"without ({step.get('verdict') or 'not compared'})"
        )


def _scores(model: Mapping[str, Any]) -> Iterator[str]:
    verdict, metrics = model.get("verdict"), model.get("metrics") or {}
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
            for row in tables["sensors"]:
                yield f"| {split}, {sensor_text(row)} | {rates_text(row)} |"


def _misuses(model: Mapping[str, Any]) -> Iterator[str]:
    verdict, signal = model.get("verdict"), model.get("signal")
    if verdict is None:
        yield "Any decision, before it is evaluated: how good it is, nobody has measured."
    elif verdict["grade"] != "good":
        yield "Deciding on a dig by it alone: its own evaluation does not bear that."
    else:
        yield "Deciding without other evidence where a needless dig or a missed leak is dear."
    if signal:
        rate = f"{signal['sample_rate_hz']:,} Hz"
        yield f"Recordings of a lower rate than {rate}: their upper bands are empty."
    unlike = "Pipes, sensors and sounds unlike those of its training. It"
    if "spectral_reference" in model:
        yield (
            f"{unlike} leaves many such recordings undecided (`familiarity` above 1), but not "
            "reliably all."
        )
    else:
        yield f"{unlike} decides them like any other: the file keeps nothing to tell them by."
    yield (
        "Reading `leak_prob` as how likely a leak is, where leaks are rarer than in its validation "
        "recordings."
    )
