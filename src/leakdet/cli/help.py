"""The text of `--help` and `leakdet settings`, and the completion of a command line."""

import argparse
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from leakdet.cli.catalogue import Setting
from leakdet.cli.settings import DOORS, known_settings, nearest
from leakdet.core.process import EXPLAINED

WIDTH = 80
WITHOUT_SETTINGS = ("info", "settings")
PURPOSE = {
    "build": "Make a store of log-mel from labelled recordings.",
    "train": "Train a detector on a store (by default on the demo) and write its model file.",
    "tune": "Search for the best training settings, and train with them.",
    "crossval": "Train and test in folds: how good a recipe is on groups held out of training.",
    "learn": "Make a better model from confirmed recordings, and compare it with the old one.",
}
# The first shelf, by section; `leakdet settings VERB --all` lists the rest too.
MOST_USED = {
    "build": {
        "recordings": ("source", "out", "add_to", "labels.leak", "labels.ignore", "labels.rename"),
        "splits": ("split.group_by", "split.ratios", "split.seed"),
        "signal": (
            "signal.sample_rate_hz", "signal.channels", "signal.highpass_hz",
            "signal.window_samples", "signal.n_mels", "like",
        ),
        "work": ("waveform", "verify", "workers", "overwrite", "log"),
    },
    "train": {
        "recordings": ("data.store", "labels.leak", "data.negatives", "init_from"),
        "training": (
            "seed", "trainer.max_epochs", "patience", "stop.name", "data.batch_size",
            "optimizer.lr", "network.dropout", "augment.eq_db",
        ),
        "verdicts": ("crossval.folds", "decision.policy", "decision.threshold", "decision.doubt"),
        "work": ("resume", "data.cache", "threads", "log"),
    },
    "tune": {
        "study": (
            "tune.study", "tune.n_trials", "tune.workers", "tune.objective", "tune.sampler",
            "tune.pruner", "tune.repeats", "tune.folds", "tune.storage", "tune.finish",
        ),
        "training": ("data.store", "labels.leak", "seed", "trainer.max_epochs", "patience"),
        "work": ("threads", "log"),
    },
    "crossval": {
        "folds": (
            "data.store", "crossval.group_by", "crossval.where", "crossval.folds",
            "crossval.repeats", "crossval.protocols", "crossval.out",
        ),
        "training": (
            "labels.leak", "seed", "trainer.max_epochs", "optimizer.lr", "data.negatives",
            "decision.policy",
        ),
        "work": ("crossval.parts", "threads", "log"),
    },
    "learn": {
        "recordings": ("model", "learn.new", "data.store", "learn.min_per_class"),
        "learning": (
            "learn.from", "learn.hold_out", "learn.target_weight", "learn.folds", "learn.steps",
            "seed",
        ),
        "work": ("learn.publish", "threads", "log"),
    },
}  # fmt: skip
EXAMPLES = {
    "build": (
        "leakdet build recordings store",
        "leakdet build list.csv store split.group_by=site",
    ),
    "train": (
        "leakdet train store",
        "leakdet train store network=linear optimizer.lr=3e-3",
        "leakdet train -m seed=0,1,2",
    ),
    "tune": ("leakdet tune -m store tune.workers=2 tune.n_trials=20",),
    "crossval": ("leakdet crossval store crossval.group_by=site",),
    "learn": (
        "leakdet learn model.safetensors confirmed.csv data.store=store",
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
    lines = [f"usage: {DOORS[door].line} [NAME=VALUE …]", "", PURPOSE[door], ""]
    lines += [shelf_text(door, settings, values), "", "Options of groups (GROUP=OPTION):"]
    for group, options in groups.items():
        lines += _wrapped(f"  {group:<12}{', '.join(options)}", 14)
    lines += ["", "Examples:", *(f"  {example}" for example in EXAMPLES[door]), ""]
    lines += _wrapped(
        f"leakdet settings {door} --all lists all settings, with their ranges; leakdet settings "
        f"{door} WORD those about a word."
    )
    lines += _wrapped("--cfg job prints what would run; -m runs every combination of a=1,2 b=x,y.")
    if door == "train":
        lines += _wrapped("Such a sweep ends in a table of what each run was given and scored.")
    lines += _wrapped(EXPLAINED)
    return "\n".join(lines)


def shelf_text(door: str, settings: Mapping[str, Setting], values: Mapping[str, Any]) -> str:
    """The most used settings of a door by section, with their sentences."""
    sections = []
    for section, names in MOST_USED[door].items():
        lines = [f"{section.capitalize()}:"]
        for name in names:
            lines += _described(settings[name], values.get(name, settings[name].default))
        sections.append("\n".join(lines))
    return "\n\n".join(sections)


def settings_text(
    settings: Iterable[Setting], values: Mapping[str, Any], word: str | None = None
) -> str:
    """Every setting with its sentence, or those whose name or sentence has `word`."""
    described = {
        setting.name: _described(setting, values.get(setting.name, setting.default))
        for setting in settings
    }
    return _about(described, word, "setting")


def options_text(parser: argparse.ArgumentParser, word: str | None = None) -> str:
    """Every option of a verb with plain arguments, or those about `word`; defaults are in them."""
    described = {}
    for action in parser._actions:
        option = next((name for name in action.option_strings if name.startswith("--")), "")
        if option not in ("", "--help"):
            choices = f"{{{','.join(action.choices)}}}" if action.choices else ""
            value = "" if action.nargs == 0 else action.metavar or choices or action.dest.upper()
            line = f"  {option} {' '.join(value) if isinstance(value, tuple) else value}".rstrip()
            meaning = (action.help or "").replace("%%", "%")
            described[option] = [line, *_wrapped(f"      {meaning}", 6)]
    return _about(described, word, "option")


def _about(described: Mapping[str, Sequence[str]], word: str | None, kind: str) -> str:
    """The descriptions by name that have `word` in them, or all."""
    lowered = (word or "").casefold()
    texts = ["\n".join(lines) for lines in described.values()]
    chosen = [text for text in texts if lowered in " ".join(text.split()).casefold()]
    if not chosen:
        names = nearest(word or "", [name.lstrip("-") for name in described])
        hint = f" Did you mean {' or '.join(names)}?" if names else ""
        return f"No {kind} has {word!r} in its name or description.{hint}"
    return "\n".join(chosen)


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


SHELLS = {
    "bash": """echo 'eval "$(leakdet completion bash)"' >> ~/.bashrc""",
    "zsh": """echo 'eval "$(leakdet completion zsh)"' >> ~/.zshrc   # below its compinit""",
    "fish": "leakdet completion fish > ~/.config/fish/completions/leakdet.fish",
}
USAGE = "\n".join(
    [
        "usage: leakdet completion SHELL",
        "",
        "Print a script by which the shell completes verbs, settings, options and files with TAB.",
        "To install it, for new shells:",
        "",
        *(f"  {shell:<6}{command}" for shell, command in SHELLS.items()),
    ]
)
FLAGS = {
    "--help": "the most used settings",
    "--version": "the version",
    "--multirun": "run every combination of a=1,2 b=x,y",
    "--cfg": "print what would run: --cfg job",
}
OPTION = re.compile(r"(--[a-z][a-z-]*)(?:\s+\{([^}]*)\})?")

# The last word is replaced after its last =, which separates words in bash.
BASH = r"""_leakdet() {
    local line=${COMP_LINE:0:COMP_POINT} start="" word meaning
    local -a words
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    local last=${words[${#words[@]}-1]}
    [[ $COMP_WORDBREAKS == *=* ]] && start=${last%"${last##*=}"}
    COMPREPLY=()
    while IFS=$'\t' read -r word meaning; do
        [[ -n $word ]] && COMPREPLY+=("${word#"$start"}")
    done <<< "$("$1" completion bash "${words[@]:1}" 2>/dev/null)"
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=.] ]] &&
        compopt -o nospace 2>/dev/null
    return 0
}
complete -o default -F _leakdet leakdet"""

ZSH = r"""#compdef leakdet
_leakdet() {
    local line word entry
    local -a whole open
    for line in "${(@f)$("$words[1]" completion zsh "${(@)words[2,CURRENT-1]}" "$PREFIX" \
            2>/dev/null)}"; do
        word=${line%%$'\t'*}
        entry=$word
        [[ $line == *$'\t'* ]] && entry+=:${line#*$'\t'}
        if [[ $word == *[=.] ]]; then open+=($entry); else whole+=($entry); fi
    done
    (( $#open )) && _describe -t settings setting open -S ''
    (( $#whole )) && _describe -t values value whole
    (( $#open + $#whole )) || { compset -P '*='; _files }
}
compdef _leakdet leakdet"""

FISH = r"""function __leakdet_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] completion fish $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        set -l parts (string match -r '^([^=]*=)?(.*)$' -- $words[-1])
        set -l key (string match -r '^[^=]*=' -- $words[-1])
        for path in (__fish_complete_path $parts[-1])
            printf '%s%s\n' "$key" $path
        end
    end
end
complete -c leakdet -f -a '(__leakdet_complete)'"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def candidates(
    words: Sequence[str], verbs: Mapping[str, str], usage: Callable[[str], str]
) -> dict[str, str]:
    """Candidates for the last word, with meanings; none where files may stand.

    `words` follow `leakdet`; `usage` gives the usage of a verb that has options, no settings.

    >>> candidates(["train", "optimizer.min"], {}, str)
    {'optimizer.min_lr=': 'Learning rate at the end.'}
    """
    *before, word = words
    known: Mapping[str, str]
    match before:
        case []:
            known = {**verbs, "completion": "complete words with TAB", "help": "explain a verb"}
        case ["help"]:
            known = verbs
        case ["completion"]:
            known = dict.fromkeys(SHELLS, "")
        case ["settings"]:
            known = {verb: text for verb, text in verbs.items() if verb not in WITHOUT_SETTINGS}
        case [door, *given] if door in DOORS:
            known = FLAGS if word.startswith("-") else _settings(door, given, word)
        case [verb, *given] if verb in verbs:
            known = _options(usage(verb), given, word)
        case _:
            known = {}
    return {name: meaning for name, meaning in known.items() if name.startswith(word)}


def _settings(door: str, given: Sequence[str], word: str) -> dict[str, str]:
    """Names of settings and groups that are not given yet, or the values of the one before `=`."""
    known = known_settings(door)
    key, equals, value = word.partition("=")
    if equals:
        setting = known.settings.get(key)
        values = known.groups.get(key) or (setting.choices if setting else ())
        if setting and setting.kind is bool:
            values = ("true", "false")
        start = value[: value.rfind(",") + 1]
        return dict.fromkeys((f"{key}={start}{text}" for text in values), "")
    taken = {argument.partition("=")[0] for argument in given}
    meanings = {group: f"one of {', '.join(names)}" for group, names in known.groups.items()}
    meanings |= {s.name: s.meaning for s in known.settings.values() if not s.open}
    return _folded({f"{name}=": text for name, text in meanings.items() if name not in taken}, word)


def _folded(meanings: Mapping[str, str], word: str) -> dict[str, str]:
    """The names that begin with `word`; of those that share their next part, that part alone."""
    names = [name for name in meanings if name.startswith(word)]
    parts = {name: name[: name.find(".", len(word)) + 1] for name in names}
    counts = {part: list(parts.values()).count(part) for part in parts.values()}
    folded = {}
    for name, part in parts.items():
        if part and counts[part] > 1:
            folded[part] = f"{counts[part]} settings"
        else:
            folded[name] = meanings[name]
    return folded


def _options(usage: str, given: Sequence[str], word: str) -> dict[str, str]:
    """Options in a usage, or the choices of the one that was given last."""
    choices = {name: listed.split(",") for name, listed in OPTION.findall(usage)}
    if given and any(of_last := choices.get(given[-1], [])):
        return dict.fromkeys(of_last, "")
    return dict.fromkeys([*choices, "--help"], "") if word.startswith("-") else {}
