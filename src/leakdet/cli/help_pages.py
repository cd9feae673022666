"""The text of `--help` and `leakdet settings` for the commands that Hydra composes."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from leakdet._exit_codes import EXPLAINED
from leakdet.cli.setting_names import Setting, nearest

WIDTH = 80
PURPOSE = {
    "build": "Make a store of log-mel from labelled recordings.",
    "train": "Train a detector on a store (by default on the demo) and write its model file.",
    "tune": "Search for the best training settings, and train with them.",
    "crossval": "Train and test in folds: how good a recipe is on groups held out of training.",
    "learn": "Make a better model from confirmed recordings, and compare it with the old one.",
}
MOST_USED = {
    "build": (
        "source", "out", "split.group_by", "split.ratios", "split.seed", "labels.leak",
        "signal.sample_rate_hz", "waveform", "workers", "surrogates",
    ),
    "train": (
        "data.store", "seed", "labels.leak", "trainer.max_epochs", "data.batch_size",
        "optimizer.lr", "network.dropout", "patience", "resume", "init_from",
    ),
    "tune": (
        "data.store", "tune.n_trials", "tune.workers", "tune.study", "tune.objective",
        "tune.sampler", "tune.pruner", "tune.repeats", "trainer.max_epochs", "labels.leak",
    ),
    "crossval": (
        "data.store", "crossval.group_by", "crossval.where", "crossval.folds",
        "crossval.repeats", "crossval.out", "seed", "trainer.max_epochs", "optimizer.lr",
        "labels.leak",
    ),
    "learn": (
        "model", "data.store", "learn.new", "learn.from", "learn.hold_out", "learn.publish",
        "learn.target_weight", "learn.min_per_class", "learn.folds", "seed",
    ),
}  # fmt: skip
EXAMPLES = {
    "build": (
        "leakdet build source=recordings out=store",
        "leakdet build source=list.csv out=store split.group_by=site",
    ),
    "train": (
        "leakdet train data.store=store",
        "leakdet train data.store=store network=linear optimizer.lr=3e-3",
        "leakdet train -m seed=0,1,2",
    ),
    "tune": ("leakdet tune -m data.store=store tune.workers=2 tune.n_trials=20",),
    "crossval": ("leakdet crossval data.store=store crossval.group_by=site",),
    "learn": (
        "leakdet learn model=model.safetensors data.store=store learn.new=confirmed.csv",
        "leakdet learn model=old.safetensors learn.publish=current.safetensors",
    ),
}
KINDS = {int: "whole number", float: "number", bool: "true or false", str: "text", list: "list"}


def help_text(
    door: str,
    settings: Mapping[str, Setting],
    groups: Mapping[str, Sequence[str]],
    values: Mapping[str, Any],
) -> str:
    """The page of `leakdet DOOR --help`; `values` are the settings' values without overrides."""
    lines = [
        f"usage: leakdet {door} [NAME=VALUE …]",
        "",
        PURPOSE[door],
        "",
        "The most used settings, with their defaults:",
    ]
    for name in MOST_USED[door]:
        lines += _described(settings[name], values.get(name, settings[name].default))
    lines += ["", "Options of groups (GROUP=OPTION):"]
    for group, options in groups.items():
        lines += _wrapped(f"  {group:<12}{', '.join(options)}", 14)
    lines += ["", "Examples:", *(f"  {example}" for example in EXAMPLES[door]), ""]
    lines += _wrapped(f"leakdet settings {door} [WORD] lists all settings, with their ranges.")
    lines += _wrapped("--cfg job prints what would run; -m runs every combination of a=1,2 b=x,y.")
    if door == "train":
        lines += _wrapped("Such a sweep ends in a table of what each run was given and scored.")
    lines += _wrapped(EXPLAINED)
    return "\n".join(lines)


def settings_text(
    settings: Iterable[Setting], values: Mapping[str, Any], word: str | None = None
) -> str:
    """Every setting with its sentence, or those whose name or sentence has `word`."""
    everything = list(settings)
    if word is None:
        chosen = everything
    else:
        lowered = word.casefold()
        chosen = [s for s in everything if lowered in f"{s.name} {s.meaning}".casefold()]
    if not chosen:
        names = nearest(word or "", [setting.name for setting in everything])
        hint = f" Did you mean {' or '.join(names)}?" if names else ""
        return f"No setting has {word!r} in its name or description.{hint}"
    return "\n".join(line for s in chosen for line in _described(s, values.get(s.name, s.default)))


def _described(setting: Setting, value: Any) -> list[str]:
    kind = KINDS.get(setting.kind, "")
    allowed = setting.allowed or kind
    about = f"{setting.meaning} ({allowed})" if allowed else setting.meaning
    return [*_assigned(setting.name, value), *_wrapped(f"      {about}", 6)]


def _assigned(name: str, value: Any) -> list[str]:
    """The line `name=value`; a group too long for it breaks between its entries."""
    line = f"  {name}={plain(value)}"
    if len(line) <= WIDTH:
        return [line]
    unbroken = line.replace(": ", ":\xa0").replace(",", ", ")  # textwrap leaves \xa0 whole
    return [part.replace("\xa0", " ") for part in _wrapped(unbroken, 6)]


def plain(value: Any) -> str:
    """A default as one would type it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ",".join(map(plain, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}: {plain(item)}" for key, item in value.items()) + "}"
    return "(required)" if value == "???" else str(value)


def _wrapped(text: str, indent: int = 0) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=" " * indent, break_long_words=False,
        break_on_hyphens=False, drop_whitespace=True,
    )  # fmt: skip
