"""Opens a door with Hydra's command line: composes its settings and runs it."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from leakdet._compose import DOORS, as_hydra_reads, store_schema, typed
from leakdet._conf import conf_folder
from leakdet._exit_codes import DONE, WRONG, guarded
from leakdet.errors import LeakdetError


@dataclass(frozen=True)
class Run:
    """The folder of a run, and how it was started."""

    folder: Path
    multirun: bool = False  # one of several jobs (-m)
    launcher: str = "basic"  # Hydra's, by which the jobs were started


def open_door(door: str, task: Callable[[Any, Run], int]) -> None:
    """Compose `conf/<door>.yaml` with the command line and run `task`; never returns.

    The process ends with the task's exit code, of several jobs the highest.
    """
    code = guarded(lambda: _prepare(door))
    if code != DONE:
        sys.exit(code)
    codes: list[int] = []

    def job(config: DictConfig) -> None:
        code = guarded(lambda: task(typed(config, DOORS[door].schema), _run()))
        codes.append(code)
        if code != DONE and os.getpid() != parent:  # a launcher's process: Hydra needs an error
            raise LeakdetError(f"this job ended with exit code {code}; its reason stands above")

    parent = os.getpid()
    start = hydra.main(version_base="1.3", config_path=str(conf_folder()), config_name=door)(job)
    try:
        start()
    # Hydra's own: --help gives 0, settings that do not compose give 1
    except SystemExit as stop:
        sys.exit(WRONG if stop.code not in (0, None) else DONE)
    sys.exit(max(codes, default=DONE))


def _prepare(door: str) -> int:
    sys.argv[1:] = as_hydra_reads(door, sys.argv[1:])
    store_schema(door)
    return DONE


def _run() -> Run:
    hydra_config = HydraConfig.get()
    return Run(
        Path(hydra_config.runtime.output_dir),
        multirun=hydra_config.mode == RunMode.MULTIRUN,
        launcher=str(hydra_config.runtime.choices.get("hydra/launcher", "basic")),
    )
