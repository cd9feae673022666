"""Composes a typed configuration with Hydra; the only module that knows Hydra and OmegaConf."""

import atexit
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from leakdet._conf import conf_folder, store_options
from leakdet._exit_codes import DONE, WRONG, guarded
from leakdet.errors import LeakdetError, SettingsError

ConfigT = TypeVar("ConfigT")


@dataclass(frozen=True)
class Run:
    """Where a run keeps what it makes, and how it was started."""

    folder: Path
    multirun: bool = False  # one of several jobs (-m)
    launcher: str = "basic"  # Hydra's, by which the jobs were started


def open_door(
    door: str,
    schema: type[ConfigT],
    task: Callable[[ConfigT, Run], int],
    paths: Sequence[str] = (),
    free_keys: Sequence[str] = (),
) -> None:
    """Compose `conf/<door>.yaml` with the command line and run `task`; never returns.

    `paths` names the settings that are paths: their values need no Hydra quoting, whatever the file is called. `free_keys`
    names the settings whose keys the user invents: they need no `+`.
    """
    arguments = [quoted(argument, ("hydra.run.dir", *paths)) for argument in sys.argv[1:]]
    sys.argv[1:] = with_experiment_file([added(argument, free_keys) for argument in arguments])
    store_schema(door, schema)
    code: list[int] = []

    def job(config: DictConfig) -> None:
        found = guarded(lambda: task(typed(config, schema), _run()))
        code.append(found)
        if found != DONE and os.getpid() != parent:  # a launcher's process: Hydra must hear of it
            raise LeakdetError(f"this job ended with exit code {found}; its reason stands above")

    parent = os.getpid()
    started = hydra.main(version_base="1.3", config_path=str(conf_folder()), config_name=door)(job)
    try:
        started()
    # Hydra's own: --help gives 0; a configuration that does not compose gives 1
    except SystemExit as stop:
        sys.exit(WRONG if stop.code not in (0, None) else DONE)
    sys.exit(max(code, default=DONE))


def store_schema(door: str, schema: type[Any]) -> None:
    """Make the types of a door's settings and the options without a file known to Hydra."""
    ConfigStore.instance().store(group="schema", name=door, node=schema, package="_global_")
    store_options()


def _run() -> Run:
    hydra_config = HydraConfig.get()
    launcher = str(hydra_config.runtime.choices.get("hydra/launcher", "basic"))
    return Run(
        Path(hydra_config.runtime.output_dir),
        multirun=hydra_config.mode == RunMode.MULTIRUN,
        launcher=launcher,
    )


def with_experiment_file(arguments: Sequence[str]) -> list[str]:
    """`experiment=any/where/best.yaml` (or `+experiment=`) as Hydra must see it: a group option in a search path of its own."""
    passed = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key.lstrip("+") != "experiment" or not value.endswith((".yaml", ".yml")):
            passed.append(argument)
            continue
        path = Path(value.strip("'\""))
        if not path.is_file():
            print(f"error: {argument}: there is no such file.", file=sys.stderr)
            sys.exit(WRONG)
        group = Path(tempfile.mkdtemp(prefix="leakdet-"))
        atexit.register(shutil.rmtree, group, ignore_errors=True)
        option = "file_" + re.sub(
            r"\W", "_", path.stem
        )  # never the name of an experiment that leakdet brings
        (group / "experiment").mkdir()
        shutil.copyfile(path, group / "experiment" / f"{option}.yaml")
        passed += [f"experiment={option}", f"hydra.searchpath=[file://{group}]"]
    return passed


def as_yaml(plain: Mapping[str, Any]) -> str:
    """Plain values as YAML that composes back to exactly the same."""
    return OmegaConf.to_yaml(OmegaConf.create(dict(plain)))


def quoted(argument: str, paths: Sequence[str]) -> str:
    """`data.store=a, b=c` as Hydra must see it: a path may hold '=', commas, brackets, '~', quotes and non-ASCII letters."""
    key, equals, value = argument.partition("=")
    if (
        not equals
        or key.lstrip("+") not in paths
        or not value
        or value == "null"
        or value[0] in "'\""
        or "${" in value
    ):
        return argument
    escaped = value.replace("'", "\\'")
    return f"{key}='{escaped}'"


def added(argument: str, free_keys: Sequence[str]) -> str:
    """`crossval.where.pipe=1` as Hydra must see it, to which every new key needs a mark of its own."""
    inside = any(argument.startswith((f"{name}=", f"{name}.")) for name in free_keys)
    return f"++{argument}" if inside and "=" in argument else argument


def typed(config: DictConfig, schema: type[ConfigT]) -> ConfigT:
    config = config.copy()
    OmegaConf.set_struct(config, False)
    config.pop("hydra", None)
    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        raise LeakdetError(
            f"{' and '.join(missing)} must be given: " + " ".join(f"{name}=..." for name in missing)
        )
    try:
        found: Any = OmegaConf.to_object(config)
    except OmegaConfBaseException as error:
        cause = error.__cause__ if isinstance(error.__cause__, LeakdetError) else error
        raise SettingsError(str(cause)) from error
    if not isinstance(found, schema):
        raise LeakdetError(
            f"the configuration composed to {type(found).__name__}, not {schema.__name__}"
        )
    return found
