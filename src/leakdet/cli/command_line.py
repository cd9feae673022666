"""Checks a command line of settings against the known ones before Hydra or torch are imported."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leakdet.cli.setting_names import LIGHTNING_ARGUMENTS, Setting, nearest
from leakdet.cli.written_values import text_for_hydra, value_for_hydra
from leakdet.config.train import LOGGERS
from leakdet.errors import SettingsError

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

    Raises:
        SettingsError: an unknown name, with the nearest known ones; a flag that is none; an option
            that a group does not have.
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
    value = value or ("" if "=" in following or following.startswith("-") else following)
    names = [name] if name in known.names else nearest(name, known.names)
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
