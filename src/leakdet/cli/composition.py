"""Settings from Hydra's groups and overrides to typed objects, for commands and for Python."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, Literal, TypeVar, overload

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton
from hydra.errors import HydraException
from hydra.version import VersionBase
from omegaconf import DictConfig, OmegaConf
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import OmegaConfBaseException

from leakdet.cli.command_line import checked
from leakdet.cli.config_groups import conf_folder, store_options
from leakdet.cli.door_settings import DOORS, further_trainer_flags, known_settings
from leakdet.cli.hydra_errors import sentence_of
from leakdet.cli.recipe_files import file_options, with_experiment_file
from leakdet.config import BuildConfig, CrossvalConfig, LearnConfig, TrainConfig, TuneConfig
from leakdet.config.range_checks import OWN_CODE, OWN_NAME
from leakdet.errors import LeakdetError, SettingsError

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
    """Compose overrides that `as_hydra_reads` has prepared.

    Raises:
        SettingsError: a value of the wrong type, or settings that do not fit together.
    """
    with _composing(door):
        return hydra.compose(door, list(prepared))


def composed_with_folders(door: str, prepared: Sequence[str]) -> tuple[DictConfig, str, str]:
    """As `composed`, with the folders that Hydra gives a run and the jobs of a sweep."""
    with _composing(door):
        config = hydra.compose(door, list(prepared), return_hydra_config=True)
        return config, str(config.hydra.run.dir), str(config.hydra.sweep.dir)


@contextmanager
def _composing(door: str) -> Iterator[None]:
    with _hydra_unchanged():
        store_schema(door)
        try:
            with hydra.initialize_config_dir(str(conf_folder()), version_base="1.3"):
                yield
        except (HydraException, OmegaConfBaseException) as error:
            raise SettingsError(sentence_of(error)) from error


@contextmanager
def _hydra_unchanged() -> Iterator[None]:
    """Let Hydra work on copies of what it keeps in the process, and with a fresh global state."""
    Plugins.instance()  # found once a process
    instances, resolvers = Singleton._instances, BaseContainer._resolvers
    copies: dict[type, Any] = dict(instances)
    copies[ConfigStore] = deepcopy(ConfigStore.instance())
    copies.pop(GlobalHydra, None)
    copies.pop(VersionBase, None)
    Singleton._instances = copies
    BaseContainer._resolvers = dict(resolvers)
    try:
        yield
    finally:
        Singleton._instances, BaseContainer._resolvers = instances, resolvers


def store_schema(door: str) -> None:
    """Make the types of a door's settings and the options without a file known to Hydra."""
    store = ConfigStore.instance()
    store.store(group="schema", name=door, node=DOORS[door].schema, package="_global_")
    store_options()


def as_hydra_reads(door: str, arguments: Sequence[str]) -> list[str]:
    """A command line with the quotes, marks and search paths that Hydra needs.

    Raises:
        InputError: the file of `experiment=FILE` does not exist.
        SettingsError: it names what the door does not know, or a file that would run code.
    """
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
    """The composed settings as their dataclass.

    Raises:
        SettingsError: a value is missing, of the wrong type or out of range.
    """
    config = config.copy()
    OmegaConf.set_struct(config, False)
    config.pop("hydra", None)
    if config.get("add_to") and OmegaConf.is_missing(config, "out"):
        config["out"] = ""  # build adds to a store and makes none
    if missing := sorted(OmegaConf.missing_keys(config)):
        examples = " ".join(f"{name}=..." for name in missing)
        raise SettingsError(f"{' and '.join(missing)} must be given: {examples}")
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
