"""The settings of each door by their dotted names, and the check of a command line against them."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from leakdet.cli.catalogue import LIGHTNING_ARGUMENTS, Setting, catalogue, trainer_flag
from leakdet.config import (
    BuildConfig,
    CallbacksConfig,
    CrossvalConfig,
    LearnConfig,
    MeasuredTrainConfig,
    TuneConfig,
)
from leakdet.config.fields import require, with_point
from leakdet.config.model import LOSSES, NETWORKS
from leakdet.config.train import ALLOWED, LOGGERS
from leakdet.core.errors import InputError, SettingsError

# names that users of other tools type, and what they mean here
HABITS = {
    "epochs": "trainer.max_epochs",
    "num_epochs": "trainer.max_epochs",
    "max_epochs": "trainer.max_epochs",
    "learning_rate": "optimizer.lr",
    "batch": "data.batch_size",
    "bs": "data.batch_size",
    "dataset": "data.store",
    "num_workers": "data.workers",
    "early_stopping": "patience",
    "gpu": "trainer",
    "gpus": "trainer.devices",
    "device": "trainer.accelerator",
    "precision": "trainer.precision",
    "trials": "tune.n_trials",
    "folds": "crossval.folds",
    "group_by": "split.group_by",
    "leak": "labels.leak",
    "model": "network",
}
# Settings and options that earlier versions had, and what to do instead.
REMOVED = {
    "find_batch_size": "data.batch_size=0 finds a batch size.",
    "surrogates": "Leave it out: augment.* of train change its recordings, docs/augmentation.md.",
    "cluster": "build reads recordings by threads: workers=N.",
    "--sites": "Name a table with the columns path, site and recorded_at in place of recordings.",
    "--precision int8-network": "Export float32, and quantise the file with onnxruntime: "
    "docs/export.md, Fewer bits.",
    "--calibrate": "Export float32, and quantise the file with onnxruntime: docs/export.md, Fewer "
    "bits.",
    "--golden": "Run scripts/golden_vectors.py MODEL DIR in a checkout of leakdet.",
}


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names that a misspelt one may stand for, the likeliest first.

    >>> nearest("optimizr.lr", ["optimizer.lr", "optimizer.min_lr", "seed"])
    ['optimizer.lr', 'optimizer.min_lr']
    >>> nearest("lr", ["optimizer.lr", "optimizer.min_lr", "seed"])
    ['optimizer.lr']
    """
    names = list(known)
    by_end: dict[str, list[str]] = {}
    for full in names:
        by_end.setdefault(full.rpartition(".")[2], []).append(full)
    end = name.rpartition(".")[2]
    habit = [HABITS[end]] if HABITS.get(end) in names else []
    same_end = by_end.get(end, [])
    close = get_close_matches(name, names, most, 0.75)
    close_end = [
        full for similar in get_close_matches(end, by_end, most, 0.75) for full in by_end[similar]
    ]
    if habit or same_end:  # a like-sounding name is no better than the very word
        close_end = []
    branch = name.rpartition(".")[0] + "."
    inside = [n.removeprefix(branch) for n in names if n.startswith(branch)]
    if len(branch) > 1 and inside:  # what only sounds alike and lies elsewhere is not meant
        close = [branch + similar for similar in get_close_matches(end, inside, most, 0.6)]
        close_end = []
    return list(dict.fromkeys([*habit, *same_end, *close, *close_end]))[:most]


PLAIN = re.compile(r"[A-Za-z0-9_./:%+-]*")  # what Hydra reads as a text without quotes
SWEEP = re.compile(r"(choice|range|interval|glob|sort|shuffle)\(.*\)").fullmatch
QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
ITEM = re.compile(rf"\s*({QUOTED}|[^,]*?)\s*(?:,|$)")
PAIR = re.compile(rf"\s*({QUOTED}|[^:,]+?)\s*:\s*({QUOTED}|[^,]+?)\s*(?:,|$)")


def value_for_hydra(value: str, setting: Setting, several: bool) -> str:
    """A value of a known setting; `several`: commas may separate values of a sweep."""
    if setting.kind is float and not several:
        value = with_point(value)
    _check_kind(value, setting)
    if setting.names and setting.kind is dict and not _is_hydras(value):
        return quoted(json.dumps(dict(_pairs(value, setting.name)), ensure_ascii=False))
    if setting.kind is list and not _is_hydras(value):
        items = list(_items(value))
        return f"[{','.join(quoted(item, always=setting.names) for item in items)}]"
    if setting.kind is str and not _is_written_out(value, "'\""):
        sweep = several and "," in value and not Path(value).exists()
        values = value.split(",") if sweep else [value]
        return ",".join(quoted(one, always=_is_no_text(one)) for one in values)
    return text_for_hydra(value, several) if setting.kind is object else value


def _check_kind(value: str, setting: Setting) -> None:
    """Raise `SettingsError` for a value that is not of the kind of the setting."""
    words, fits = KINDS.get(setting.kind, ("a value", bool))
    words = setting.allowed.replace("a number", words) if setting.allowed else words
    if value == "null":
        require(setting.optional, setting.name, value, words)
    elif setting.kind in KINDS and not _is_written_out(value, "'\""):
        for each in [value] if setting.kind is list else value.split(","):
            require(bool(fits(each.strip())), setting.name, each, words)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


KINDS: dict[type, tuple[str, Callable[[str], object]]] = {
    int: ("a whole number", re.compile(r"[+-]?\d[\d_]*").fullmatch),
    float: ("a number", _is_number),
    bool: ("true or false", re.compile(r"(?i)true|false|yes|no|on|off|y|n|[01]").fullmatch),
    list: (
        "a list such as [a,b]",
        lambda text: (text[:1] == "[") == (text[-1:] == "]") or text.count("[") == text.count("]"),
    ),
}


def text_for_hydra(value: str, several: bool) -> str:
    """Quote a text that may also be a list, a group or a sweep."""
    plain = _is_written_out(value, "'\"[{") or (several and "," in value)
    return value if plain else quoted(value)


def _is_hydras(value: str) -> bool:
    """True for a value for a collection that Hydra evaluates, instead of names."""
    nested = value[:1] == "[" and any(bracket in value[1:-1] for bracket in "[{")
    return not value or value == "null" or "${" in value or bool(SWEEP(value)) or nested


def _items(value: str) -> Iterator[str]:
    """The names in `[a, 'b, c']` or `a,b`."""
    inside = value[1:-1] if value[0] == "[" and value[-1] == "]" else value
    if inside.strip():
        yield from (_bare(match[1]) for match in _matches(ITEM, inside))


def _pairs(value: str, name: str) -> Iterator[tuple[str, str]]:
    """The names in `{old: new, 'older: one': new}`."""
    inside = value[1:-1] if value[0] == "{" and value[-1] == "}" else "?"
    matches = _matches(PAIR, inside)
    if sum(len(match[0]) for match in matches) < len(inside.rstrip()):
        raise SettingsError(f"{name}={value}: write it as {name}={{old: new, other: new}}.")
    yield from ((_bare(match[1]), _bare(match[2])) for match in matches)


def _matches(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Matches that follow one another from the start of the text."""
    found, at = [], 0
    while at < len(text) and (match := pattern.match(text, at)):
        found.append(match)
        at = match.end()
    return found


def _bare(text: str) -> str:
    """A text without the quotes around it."""
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def _is_written_out(value: str, openings: str) -> bool:
    return (
        not value or value == "null" or value[0] in openings or "${" in value or bool(SWEEP(value))
    )


def _is_no_text(value: str) -> bool:
    """True for text that Hydra would read as null, number or truth value, losing its spelling."""
    return _is_number(value) or value.casefold() in ("true", "false", "null")


def quoted(value: str, always: bool = False) -> str:
    """A text with the quotes that Hydra needs."""
    if PLAIN.fullmatch(value) and not always:
        return value
    backslashes = len(value) - len(value.rstrip("\\"))  # they would escape the closing quote
    escaped = re.sub(r"(\\*)'", lambda found: 2 * found[1] + "\\'", value)  # they too count double
    return "'" + escaped + "\\" * backslashes + "'"


# Hydra's own options that take a value, and those that take none.
WITH_VALUE = {
    "--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--config-name", "-cn",
    "--config-dir", "-cd", "--info", "-i", "--experimental-rerun",
}  # fmt: skip
ALONE = {
    "--hydra-help", "--resolve", "--run", "-r", "--multirun", "-m",
    "--shell-completion", "-sc",
}  # fmt: skip
SHOWN = ("job", "hydra", "all")  # by --cfg


@dataclass(frozen=True)
class Known:
    """The names that a command line may use: settings, groups of options, and free keys."""

    settings: Mapping[str, Setting]
    groups: Mapping[str, Sequence[str]]
    free_keys: Sequence[str] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)  # other commands' settings

    @property
    def names(self) -> list[str]:
        return [*self.settings, *self.groups]

    def is_free(self, key: str) -> bool:
        """True if `key` lies where any name is allowed: Hydra's own, and open settings."""
        if key.startswith("trainer."):  # a misspelt flag would train for an hour on the default
            return False
        opened = [name for name, setting in self.settings.items() if setting.open]
        prefixes = ("hydra", *self.free_keys, *opened)
        return any(key == name or key.startswith((f"{name}.", f"{name}/")) for name in prefixes)

    def is_branch(self, key: str) -> bool:
        return any(name.startswith(f"{key}.") for name in self.settings)


def checked(arguments: Sequence[str], known: Known) -> list[str]:
    """The arguments as Hydra can read them, if every name in them is known.

    Texts get the quotes that Hydra needs, and one name where a list is meant becomes a list.
    """
    several = any(argument in ("-m", "--multirun") for argument in arguments)
    own_folder = any(a.startswith(("--config-dir", "-cd", "hydra.searchpath")) for a in arguments)
    passed: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        passed.append(argument)
        if argument in ALONE or argument.partition("=")[0] in WITH_VALUE:
            if argument in WITH_VALUE and (value := next(rest, None)) is not None:
                passed.append(value)
            if argument.partition("=")[0] in ("--cfg", "-c"):
                _check_shown(passed[-1].rpartition("=")[2])
            continue
        if argument.startswith("-"):
            raise SettingsError(_flag(argument, next(rest, ""), known))
        passed[-1] = _override(argument, known, several, own_folder)
    return passed


def _check_shown(part: str) -> None:
    if part not in SHOWN:
        raise SettingsError(
            f"--cfg {'' if part in ('--cfg', '-c') else part}: it shows one of {', '.join(SHOWN)}. "
            "Write --cfg job for what would run"
        )


def _flag(argument: str, following: str, known: Known) -> str:
    """The message for `--epochs 5`: settings have no dashes."""
    name, _, value = argument.lstrip("-").partition("=")
    name = name.replace("-", "_")
    if name == "quiet":  # an option of predict and evaluate
        return f"{argument}: settings have no dashes and are name=value. Write log=quiet"
    names = [name] if name in known.names else nearest(name, known.names)
    setting = known.settings.get(names[0]) if names else None
    _, fits = KINDS.get(setting.kind if setting else str, ("", bool))
    if not ("=" in following or following.startswith("-")) and fits(following):
        value = value or following
    if not names:
        return f"{argument}: there is no such option. Settings are name=value; --help lists them."
    written = f"{names[0]}={value or 'VALUE'}"
    return f"{argument}: settings have no dashes and are name=value. Write {written}"


def _override(argument: str, known: Known, several: bool, own_folder: bool) -> str:
    mark, key, equals, value = _parts(argument)
    bare = key.partition("@")[0]
    _check_form(argument, bare, known)
    if mark.startswith("+") and (bare in known.groups or bare in known.settings):
        mark, argument = "", argument.lstrip("+")  # it is there already
    if bare in known.groups and not value.startswith("{"):
        if not (own_folder or "$" in value):
            _check_option(argument, bare, value, known.groups[bare], several)
        return argument
    if known.is_free(bare):
        is_text = any(bare.startswith(name) for name in (*known.free_keys, "hydra.run.dir"))
        return f"{mark}{key}={text_for_hydra(value, several)}" if equals and is_text else argument
    setting = known.settings.get(bare)
    if setting is not None:
        if mark == "~" and not (setting.open or bare.startswith("trainer.")):
            raise SettingsError(
                f"{argument}: a setting cannot be taken away. Give it a value: {bare}=VALUE"
            )
        return f"{mark}{key}={value_for_hydra(value, setting, several)}" if equals else argument
    if mark.startswith("+") and bare.startswith("trainer."):
        # Lightning knows more arguments than conf/trainer/ sets, and newer ones may know others
        flag = bare.partition(".")[2].partition(".")[0]
        if flag in LIGHTNING_ARGUMENTS or not nearest(flag, LIGHTNING_ARGUMENTS):
            return argument
        written = [f"trainer.{name}={value}" for name in nearest(flag, LIGHTNING_ARGUMENTS)]
        marked = [w if w.partition("=")[0] in known.settings else f"+{w}" for w in written]
        raise SettingsError(
            f"{argument}: lightning.Trainer has no argument {flag}. "
            f"Did you mean {' or '.join(marked)}?"
        )
    if known.is_branch(bare):
        inside = [name for name in known.settings if name.startswith(f"{bare}.")]
        if value.startswith(("{", "$")) or mark == "~":
            return argument
        raise SettingsError(
            f"{argument}: {bare} is a group of settings; give one of them, such as "
            f"{inside[0]}={value}"
        )
    raise SettingsError(_unknown(argument, bare, value, known))


def _check_form(argument: str, key: str, known: Known) -> None:
    """Refuse what is no name=value, a group that is taken away, and a logger that is none."""
    mark, _, equals, value = _parts(argument)
    if not equals and mark != "~":
        names = nearest(argument, known.names)
        hint = f" Did you mean {names[0]}=…?" if names else " --help lists the settings."
        raise SettingsError(f"{argument}: settings are name=value.{hint}")
    if not key:
        raise SettingsError(f"{argument}: the name of the setting is missing: NAME{equals}{value}")
    if key in known.groups and mark == "~":
        options = ", ".join(known.groups[key])
        raise SettingsError(
            f"{argument}: a group cannot be taken away; {key} is one of {options}: {key}=…"
        )
    group, _, inner = key.partition(".")
    name = inner.partition(".")[0]
    if group == "logger" and inner and name not in LOGGERS:
        close = nearest(name, LOGGERS, 1)
        hint = f" Did you mean {argument.replace(name, close[0], 1)}?" if close else ""
        raise SettingsError(
            f"{argument}: there is no logger {name}; there are {', '.join(LOGGERS)}.{hint}"
        )


def _parts(argument: str) -> tuple[str, str, str, str]:
    mark = re.match(r"(\+\+|\+|~)?", argument)
    sign = mark.group(0) if mark else ""
    key, equals, value = argument[len(sign) :].partition("=")
    return sign, key, equals, value


def _unknown(argument: str, key: str, value: str, known: Known) -> str:
    if key in REMOVED:
        return f"{argument}: {key} was removed. {REMOVED[key]}"
    if key in known.elsewhere:
        return f"{argument}: {key} is a setting of leakdet {known.elsewhere[key]}, not of this one."
    whole, _, inner = key.rpartition(".")
    if whole in known.settings and known.settings[whole].names:
        return f"{argument}: write it as {whole}={{{inner}: {value}}}"
    names = nearest(key, known.names)
    inside = [name for name in known.settings if whole and name.startswith(f"{whole}.")]
    if not names and inside:
        listed = ", ".join(name.removeprefix(f"{whole}.") for name in inside)
        return f"{argument}: there is no setting {key}; {whole} has {listed}."
    if not names:
        return f"{argument}: there is no setting {key}. --help says how to list them all."
    written = [f"{name}={value}" if value else name for name in names]
    more = " (Other arguments of lightning.Trainer: +trainer.NAME=VALUE)"
    hint = more if key.startswith("trainer.") else ""
    return f"{argument}: there is no setting {key}. Did you mean {' or '.join(written)}?{hint}"


def _check_option(
    argument: str, group: str, value: str, options: Sequence[str], several: bool
) -> None:
    values = value.strip("[]").split(",") if several or value.startswith("[") else [value]
    for option in values:
        if option in options or option.endswith((".yaml", ".yml")) or option[:1] in "'\"":
            continue
        close = nearest(option, options, 1)
        hint = f" Did you mean {group}={close[0]}?" if close else ""
        if set(option.split(",")) <= set(options):  # without -m
            hint = f" One run for each of them: -m {group}={option}"
        raise SettingsError(
            f"{argument}: {group} has no option {option!r}; it has {', '.join(options)}.{hint}"
        )


CALLBACKS = [field.name for field in fields(CallbacksConfig) if field.name != "extra"]
# Selected as an option with a file is, `group=option`.
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "callbacks": {"all": dict.fromkeys(CALLBACKS, True), "none": dict.fromkeys(CALLBACKS, False)},
    "labels": {name: {"mode": name} for name in ("binary", "multiclass")},
    "logger": {
        "default": {"csv": {}, "tensorboard": {}},
        # No numbers of single steps; report and figures draw from history.csv, which is always
        # written.
        "none": {},
        **{name: {name: {}} for name in LOGGERS},
    },
    "loss": {name: {"name": name} for name in LOSSES},
    "network": {name: {"name": name} for name in NETWORKS},
}


def conf_folder() -> Path:
    """`leakdet/conf` of an installed wheel, or `conf` at the top of a checkout."""
    package = Path(__file__).resolve().parent.parent
    for candidate in (package / "conf", package.parent.parent / "conf"):
        if (candidate / "train.yaml").exists():
            return candidate
    raise InputError(
        f"leakdet's conf folder is missing in {package}: the installation is damaged, "
        "install it again."
    )


def option_names() -> dict[str, list[str]]:
    """The options of each group, with and without a file in conf/."""
    names = {group: set(options) for group, options in OPTIONS.items()}
    for path in conf_folder().glob("*/*.yaml"):
        names.setdefault(path.parent.name, set()).add(path.stem)
    return {group: sorted(options) for group, options in sorted(names.items())}


@dataclass(frozen=True)
class DoorSettings:
    """The type of a door's settings, and those below which any key is allowed.

    `words` are the settings that a path without a name stands for, in this order, and `line` shows
    them. `swept` is the only setting that may have several values with -m, where the jobs share
    their work; `advice` is for others.
    """

    schema: type[Any]
    words: tuple[str, ...]
    line: str
    free_keys: tuple[str, ...] = ()
    swept: str | None = None
    advice: str = ""


OWN_KEYS = ("network.extra", "loss.extra", *(f"logger.{name}" for name in LOGGERS))
DOORS = {
    "build": DoorSettings(BuildConfig, ("source", "out"), "leakdet build RECORDINGS STORE"),
    "train": DoorSettings(MeasuredTrainConfig, ("data.store",), "leakdet train STORE", OWN_KEYS),
    "tune": DoorSettings(
        TuneConfig,
        ("data.store",),
        "leakdet tune STORE",
        OWN_KEYS,
        swept="tune.worker",
        advice="tune works at one study. Search this setting (docs/tuning.md), or run the command "
        "once for each value, each with its own tune.study",
    ),
    "crossval": DoorSettings(
        CrossvalConfig,
        ("data.store",),
        "leakdet crossval STORE",
        ("crossval.where", "crossval.protocols", *OWN_KEYS),
        swept="crossval.part",
        advice="the jobs of one crossval share their folds. Run the command once for each value",
    ),
    "learn": DoorSettings(
        LearnConfig, ("model", "learn.new"), "leakdet learn MODEL RECORDINGS", OWN_KEYS
    ),
}


@cache
def known_settings(door: str) -> Known:
    """The names that the command line of a door may use."""
    from omegaconf import OmegaConf

    defaults = OmegaConf.load(conf_folder() / f"{door}.yaml").defaults
    groups = {str(key) for entry in defaults if not isinstance(entry, str) for key in entry}
    options = {group: names for group, names in option_names().items() if group in groups}
    settings = {setting.name: setting for setting in catalogue(DOORS[door].schema)}
    if "trainer" in groups:
        flags = [*_trainer_flags("cpu"), *further_trainer_flags()]
        settings |= {
            f"trainer.{flag}": trainer_flag(flag, ALLOWED.get(flag, ("",))[0]) for flag in flags
        }
    elsewhere = {
        setting.name: other for other in DOORS for setting in catalogue(DOORS[other].schema)
    }
    return Known(settings, options, DOORS[door].free_keys, elsewhere)


@cache
def _trainer_flags(option: str) -> list[str]:
    """The arguments of `lightning.Trainer` that an option of the group `trainer` sets."""
    from omegaconf import OmegaConf

    return [str(name) for name in OmegaConf.load(conf_folder() / f"trainer/{option}.yaml").trainer]


def further_trainer_flags() -> list[str]:
    """Those that only some options set, as num_nodes of ddp."""
    others = {flag for option in option_names()["trainer"] for flag in _trainer_flags(option)}
    return sorted(others - set(_trainer_flags("cpu")))
