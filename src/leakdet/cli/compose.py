"""Settings from Hydra's groups, files and overrides to typed objects, for commands and Python."""

import atexit
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton
from hydra.errors import HydraException, OverrideParseException
from hydra.version import VersionBase
from omegaconf import DictConfig, OmegaConf
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import OmegaConfBaseException

from leakdet.cli.settings import (
    DOORS,
    OPTIONS,
    checked,
    conf_folder,
    further_trainer_flags,
    known_settings,
    nearest,
)
from leakdet.config import BuildConfig, CrossvalConfig, LearnConfig, TrainConfig, TuneConfig
from leakdet.config.fields import OWN_CODE, OWN_NAME
from leakdet.core.errors import InputError, LeakdetError, SettingsError
from leakdet.core.files import as_input_error, require_readable

# what OmegaConf says of a setting, and what is said instead
SENTENCES = {
    r"field '.*' is not Optional|Incompatible value 'None'|Invalid type assigned: NoneType": (
        "{key}=null is not allowed: it needs a value."
    ),
    r"Value '(.*)' of type '.*' could not be converted to Float": (
        "{key}={0} is not allowed: it must be a number."
    ),
    r"Value '(.*)' of type '.*' could not be converted to Integer": (
        "{key}={0} is not allowed: it must be a whole number."
    ),
    r"Value '(.*)' .*is not a valid bool": "{key}={0} is not allowed: it must be true or false.",
    r"Key '.*' (?:is )?not in ": "{key}: there is no such setting.",
    r"Cannot assign \w+ to Dict": "{key}: takes names with values, such as {{name: value}}.",
}


def sentence_of(error: Exception) -> str:
    """The innermost reason that Hydra or OmegaConf gives, with the setting that it is about."""
    reasons = [error]
    while isinstance(cause := reasons[-1].__cause__, HydraException | OmegaConfBaseException):
        reasons.append(cause)
    if ambiguous := re.match(r"Ambiguous value for argument '(.*)'$", str(reasons[-1]), re.M):
        argument = ambiguous.group(1)
        name, _, values = argument.partition("=")
        return (
            f"{argument}: several values are one run each: -m {argument}. "
            f"A list is written {name}=[{values}]"
        )
    for each in reasons:
        if isinstance(each, OverrideParseException):
            return (
                f"{each.override}: cannot be read; is a bracket or quote open? "
                """Text with such signs is written NAME='"TEXT"'"""
            )
    lines = [line.strip() for line in str(reasons[-1]).strip().splitlines()]
    key = next((line.partition(" ")[2] for line in lines if line.startswith("full_key: ")), "")
    internal = ("full_key:", "object_type=", "reference_type=")
    reason = " ".join(line for line in lines if line and not line.startswith(internal))
    for pattern, sentence in SENTENCES.items():
        if key and (found := re.match(pattern, reason)):
            return sentence.format(*found.groups(), key=key)
    return f"{key}: {reason}" if key else reason


HEADING = "# @package _global_"
PREFIX = "file_"  # an option made of a file never has the name of an experiment in conf/


def with_experiment_file(arguments: Sequence[str]) -> list[str]:
    """Turn `experiment=any/where/best.yaml` into a group option with a search path of its own.

    With -m there may be several, separated by commas, beside names of conf/experiment.
    """
    several = bool({"-m", "--multirun"} & set(arguments))
    passed: list[str] = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        given = value.split(",") if several and not Path(value).exists() else [value]
        if key.lstrip("+") != "experiment" or not any(map(_is_yaml, given)):
            passed.append(argument)
            continue
        group = Path(tempfile.mkdtemp(prefix="leakdet-"))
        atexit.register(shutil.rmtree, group, ignore_errors=True)
        (group / "experiment").mkdir()
        options = [_copied(each, group) if _is_yaml(each) else each for each in given]
        passed += [f"experiment={','.join(options)}", f"hydra.searchpath=[file://{group}]"]
    return passed


def file_options(prepared: Sequence[str]) -> Iterator[list[str]]:
    """Yield the words that compose each file of settings alone."""
    searched = [word for word in prepared if word.startswith("hydra.searchpath=[file://")]
    for word in prepared:
        key, _, value = word.partition("=")
        for option in value.split(",") if key == "experiment" else ():
            if option.startswith(PREFIX):
                yield [f"experiment={option}", *searched]


def _is_yaml(option: str) -> bool:
    return option.strip("'\"").endswith((".yaml", ".yml"))


def _copied(option: str, group: Path) -> str:
    """The name under which a file of settings is copied into a group of experiments."""
    path = Path(option.strip("'\""))
    if not path.is_file():
        raise InputError(f"experiment={option}: there is no such file.")
    with as_input_error(path, "a YAML file of settings"):
        text = path.read_text(encoding="utf-8-sig")
        settings = OmegaConf.load(path)
        if not isinstance(settings, DictConfig):
            raise TypeError("it has no names with values")
        _check_headings(text)
        _check_runs_nothing(path, OmegaConf.to_container(settings))
    name = base = PREFIX + re.sub(r"\W", "_", path.stem)
    while (group / "experiment" / f"{name}.yaml").exists():  # the same name in another folder
        name = f"{base}_{len(list((group / 'experiment').iterdir()))}"
    (group / "experiment" / f"{name}.yaml").write_text(f"{HEADING}\n{text}", encoding="utf-8")
    return name


def _check_headings(text: str) -> None:
    """Refuse a heading that would put the settings elsewhere, or that is cut off."""
    for line in map(str.strip, text.splitlines()):
        if re.match(r"#\s*@(package\b|\S*$)", line) and line.split("@")[1].split() != [
            "package",
            "_global_",
        ]:
            raise ValueError(f"{line!r} should be {HEADING}")


def _check_runs_nothing(path: Path, settings: Any) -> None:
    """Refuse what Hydra would import and call: its own settings, and `_target_`."""
    own = "hydra" in settings or "hydra" in str(settings.get("defaults", ""))
    if own or "_target_" in set(_keys(settings)):
        raise SettingsError(
            f"{path}: a file of settings may hold neither hydra settings nor _target_, by which "
            "it could run code. Give hydra settings on the command line."
        )


def _keys(node: Any) -> Iterator[Any]:
    for each in node if isinstance(node, list) else ():
        yield from _keys(each)
    for key, value in node.items() if isinstance(node, dict) else ():
        yield key
        yield from _keys(value)


ConfigT = TypeVar("ConfigT")


@overload
def compose(door: Literal["train"], overrides: Sequence[str] = ()) -> TrainConfig: ...
@overload
def compose(door: Literal["build"], overrides: Sequence[str] = ()) -> BuildConfig: ...
@overload
def compose(door: Literal["tune"], overrides: Sequence[str] = ()) -> TuneConfig: ...
@overload
def compose(door: Literal["crossval"], overrides: Sequence[str] = ()) -> CrossvalConfig: ...
@overload
def compose(door: Literal["learn"], overrides: Sequence[str] = ()) -> LearnConfig: ...


def compose(door: str, overrides: Sequence[str] = ()) -> Any:
    """The settings that `leakdet DOOR OVERRIDES…` has, as a dataclass of `leakdet.config`.

    Hydra's own state stays what it is, so that programs which use Hydra can call it too.

    >>> config = compose("train", ["optimizer.lr=1e-3", "network=linear"])
    >>> config.optimizer.lr, config.network.name
    (0.001, 'linear')

    Raises:
        SettingsError: an unknown door or setting, or a value of the wrong type or out of range.
    """
    if door not in DOORS:
        raise SettingsError(f"{door}: has no settings; allowed are {', '.join(DOORS)}.")
    if isinstance(overrides, str):
        raise TypeError(f"overrides must be a list, such as [{overrides!r}]")
    config = composed(door, as_hydra_reads(door, overrides))
    return typed(config, DOORS[door].schema)


def composed(door: str, prepared: Sequence[str]) -> DictConfig:
    """Compose overrides that `as_hydra_reads` has prepared."""
    with composing(door):
        return hydra.compose(door, list(prepared))


@contextmanager
def composing(door: str) -> Iterator[None]:
    """Let `hydra.compose` know the settings of a door, and leave Hydra's own state as it is.

    Hydra works on copies of what it keeps in the process, and with a fresh global state.
    """
    Plugins.instance()  # found once a process
    instances, resolvers = Singleton._instances, BaseContainer._resolvers
    configs = ConfigStore.instance().repo
    fresh = (GlobalHydra, VersionBase, ConfigStore)
    Singleton._instances = {kind: each for kind, each in instances.items() if kind not in fresh}
    BaseContainer._resolvers = dict(resolvers)
    ConfigStore.instance().repo = configs
    store_schemas()
    try:
        with hydra.initialize_config_dir(str(conf_folder()), job_name="run", version_base="1.3"):
            yield
    except (HydraException, OmegaConfBaseException) as error:
        raise SettingsError(sentence_of(error)) from error
    finally:
        Singleton._instances, BaseContainer._resolvers = instances, resolvers


def store_schemas() -> None:
    """Make the types of the doors' settings and the options without a file known to Hydra."""
    store = ConfigStore.instance()
    store.repo = _merged(store.repo, _schemas())


@cache
def _schemas() -> dict[str, Any]:
    """Hydra's groups of them, made once: Hydra gives away copies of single configs."""
    store = ConfigStore.instance()
    others, store.repo = store.repo, {}
    try:
        for door, settings in DOORS.items():
            store.store(group="schema", name=door, node=settings.schema, package="_global_")
        for group, options in OPTIONS.items():
            for name, values in options.items():
                store.store(group=group, name=name, node=values)
        return store.repo
    finally:
        store.repo = others


def _merged(groups: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Both trees of groups as a new one, whose configs are shared."""
    merged = dict(groups)
    for name, inside in others.items():
        both = isinstance(inside, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merged(merged[name], inside) if both else inside
    return merged


def as_hydra_reads(door: str, arguments: Sequence[str]) -> list[str]:
    """A command line with the quotes, marks and search paths that Hydra needs."""
    plain = checked(arguments, known_settings(door))
    free = (*DOORS[door].free_keys, *(f"trainer.{flag}" for flag in further_trainer_flags()))
    plain = [re.sub(r"^learn\.from=", "learn.from_=", argument) for argument in plain]
    prepared = with_experiment_file([added(argument, free) for argument in plain])
    _check_own_code(door, prepared)
    return prepared


def _check_own_code(door: str, prepared: Sequence[str]) -> None:
    """Refuse to import what a file of settings names and the command line does not."""
    for words in file_options(prepared):
        config = composed(door, words)
        values = [OmegaConf.select(config, setting) for setting in OWN_CODE]
        named = {name[0] for value in values for name in OWN_NAME.finditer(str(value))}
        told = {name[0] for word in prepared for name in OWN_NAME.finditer(word)}
        if missing := sorted(named - told):
            raise SettingsError(
                f"experiment: the file of settings names code, {' and '.join(missing)}, which is "
                "imported only where the command names it too. If you trust it, add "
                f"trust_network=[{','.join(missing)}]"
            )


def added(argument: str, free_keys: Sequence[str]) -> str:
    """Mark `crossval.where.pipe=1`, a key that no type declares, as added or overridden."""
    inside = any(argument.startswith((f"{name}=", f"{name}.")) for name in free_keys)
    return f"++{argument}" if inside and "=" in argument else argument


def default_values(door: str) -> dict[str, Any]:
    """Every setting's value where the command line says nothing, by dotted name."""
    values = flat(OmegaConf.to_container(composed(door, ()), resolve=True))
    return {name.rstrip("_"): value for name, value in values}  # learn.from is a field from_


def flat(values: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        yield f"{prefix}{key}", value
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")


def typed(config: DictConfig, schema: type[ConfigT]) -> ConfigT:
    """The composed settings as their dataclass."""
    config = config.copy()
    OmegaConf.set_struct(config, False)
    config.pop("hydra", None)
    if config.get("add_to") and OmegaConf.is_missing(config, "out"):
        config["out"] = ""  # build adds to a store and makes none
    if missing := sorted(OmegaConf.missing_keys(config)):
        line = next(door.line for door in DOORS.values() if door.schema is schema)
        raise SettingsError(f"{' and '.join(missing)} must be given. Write: {line}")
    try:
        settings: Any = OmegaConf.to_object(config)
    except OmegaConfBaseException as error:
        cause = error.__cause__ if isinstance(error.__cause__, LeakdetError) else error
        raise SettingsError(str(cause)) from error
    if not isinstance(settings, schema):
        raise SettingsError(
            f"the settings composed to {type(settings).__name__}, not {schema.__name__}"
        )
    return settings


def as_yaml(plain: Mapping[str, Any]) -> str:
    """Plain values as YAML that composes back to exactly the same."""
    return OmegaConf.to_yaml(OmegaConf.create(dict(plain)))


LONGEST_RULE = 40  # letters; a longer name is the text of another file


def read_rules(path: Path, schema: type[Any]) -> dict[str, Any]:
    """Parameters of a rule, `name: number`, from a YAML file; `schema` declares their fields.

    Raises `InputError` for a file that cannot be read or is no such table, and for a name that is
    unknown or a value that is no number of its kind; `SettingsError` for a value out of range.
    """
    require_readable(path, "file of rules")
    example = "It has a line for each parameter, such as alarms: 2."
    with as_input_error(path, "a YAML file of rules", example):
        content: Any = OmegaConf.to_container(OmegaConf.load(path))
        values = content if isinstance(content, dict) else {None: content}
        if not all(isinstance(name, str) and len(name) <= LONGEST_RULE for name in values):
            raise TypeError("it is no table of names and numbers")
    kinds = {field.name: int if field.type in (int, "int") else float for field in fields(schema)}
    for name, value in values.items():
        if name not in kinds:
            close = nearest(str(name), kinds, 1)
            hint = f"Did you mean {close[0]}?" if close else f"There are {', '.join(kinds)}."
            raise InputError(f"{path}: there is no rule {name!r}. {hint}")
        whole = kinds[str(name)] is int
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            kind = "a whole number" if whole else "a number"
            raise InputError(f"{path}: {name}: {value!r} is not allowed: it must be {kind}.")
    rules = {str(name): kinds[str(name)](value) for name, value in values.items()}
    try:
        schema(**rules)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error
    return rules
