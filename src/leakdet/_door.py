"""The only place that knows Hydra and OmegaConf: a composed configuration becomes one typed object; faults become exit codes.

Exit codes of every door: 0 done; 1 done in part (some input could not be used); 2 wrong usage, settings or input;
130 interrupted (Ctrl-C), 143 terminated.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from leakdet.errors import LeakdetError

DONE, PARTLY, WRONG, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
ConfigT = TypeVar("ConfigT")


@dataclass(frozen=True)
class Run:
    """Where a run keeps what it makes."""

    folder: Path


def open_door(
    door: str, schema: type[ConfigT], task: Callable[[ConfigT, Run], int], paths: Sequence[str] = ()
) -> None:
    """Compose `conf/<door>.yaml` with the command line and run `task`; never returns.

    `paths` names the settings that are paths: their values need no Hydra quoting, whatever the file is called.
    """
    sys.argv[1:] = [quoted(argument, ("hydra.run.dir", *paths)) for argument in sys.argv[1:]]
    ConfigStore.instance().store(group="schema", name=door, node=schema, package="_global_")
    code: list[int] = []

    def job(config: DictConfig) -> None:
        code.append(
            _guarded(lambda: task(typed(config, schema), Run(Path(HydraConfig.get().runtime.output_dir))))
        )

    started = hydra.main(version_base="1.3", config_path=str(conf_folder()), config_name=door)(job)
    try:
        started()
    except SystemExit as stop:  # Hydra's own: --help gives 0; a configuration that does not compose gives 1
        sys.exit(WRONG if stop.code not in (0, None) else DONE)
    sys.exit(max(code, default=DONE))


def conf_folder() -> Path:
    """`leakdet/conf` of an installed wheel, or `conf` at the top of a checkout."""
    here = Path(__file__).resolve().parent
    for candidate in (here / "conf", here.parent.parent / "conf"):
        if (candidate / "train.yaml").exists():
            return candidate
    raise SystemExit(
        f"leakdet's conf folder is missing beside {here}: the installation is damaged, install it again."
    )


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


def typed(config: DictConfig, schema: type[ConfigT]) -> ConfigT:
    config = config.copy()
    OmegaConf.set_struct(config, False)
    config.pop("hydra", None)
    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        raise LeakdetError(
            f"{' and '.join(missing)} must be given: " + " ".join(f"{name}=..." for name in missing)
        )
    found: Any = OmegaConf.to_object(config)
    if not isinstance(found, schema):
        raise LeakdetError(f"the configuration composed to {type(found).__name__}, not {schema.__name__}")
    return found


def _guarded(work: Callable[[], int]) -> int:
    """A door's exit code; what a user can cause ends in a sentence on stderr, not in a traceback."""
    try:
        return work()
    except OmegaConfBaseException as error:
        cause = error.__cause__ if isinstance(error.__cause__, LeakdetError) else error
        print(f"error: {cause}", file=sys.stderr)
        return WRONG
    except LeakdetError as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
