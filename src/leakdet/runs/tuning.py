"""Running a study with the workers of this machine, from its checks to its result."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import optuna
from optuna.exceptions import StorageInternalError

from leakdet.config import TrainerFlags, TuneConfig
from leakdet.core.errors import LeakdetError, SettingsError
from leakdet.core.messages import print_status
from leakdet.storage.store import StoreSplit
from leakdet.tuning.objective import Objective, ToYaml, TrainFold, trial_parts
from leakdet.tuning.results import TrainWhole, finish
from leakdet.tuning.space import check_space
from leakdet.tuning.study import first_line
from leakdet.tuning.workers import (
    Processes,
    Worker,
    end_workers,
    stop_code,
    stop_name,
    wait_for_workers,
)


def check_requirements(config: TuneConfig, multirun: bool) -> Sequence[Sequence[StoreSplit]] | None:
    """The parts of trials on a store that is named, as `trial_parts` gives them.

    Raises `SettingsError` or `InputError` where every trial would fail.
    """
    tune, flags = config.tune, TrainerFlags.of(config.trainer)
    devices = len(flags.devices) if isinstance(flags.devices, list) else flags.devices
    one_device = devices in (1, "1", "auto") and flags.num_nodes == 1
    if flags.strategy not in ("auto", "single_device") or not one_device:
        raise SettingsError(
            f"trainer.strategy={flags.strategy}, devices={flags.devices}, "
            f"num_nodes={flags.num_nodes}: tune trains a trial on one device. "
            "Use trainer.devices=1 and several workers (-m tune.workers=4)."
        )
    if tune.workers > 1 and not multirun and tune.worker == 0:
        raise SettingsError(
            f"tune.workers={tune.workers} needs -m: leakdet tune -m tune.workers={tune.workers}"
        )
    check_space(config.search, config.training())
    from leakdet.training.settings import check_settings  # imports torch

    for name, param in config.search.items():
        if config.find_lr and param.setting == "optimizer.lr":
            raise SettingsError(
                "find_lr=true: every trial would replace the optimizer.lr that the study draws, "
                "and the study would learn nothing of it. Leave find_lr out, or take "
                f"search.{name} out of the search (~search.{name})."
            )
    check_settings(config.training())
    if config.data.store is None:
        return None
    # before the study is made, which would remember a store that cannot be used
    return trial_parts(config, Path(config.data.store))


def share_cores(config: TuneConfig) -> TuneConfig:
    """Give each of several workers its share of the cores, where `threads` leaves the choice."""
    if config.tune.workers == 1 or config.threads:
        return config
    return replace(config, threads=max(1, len(os.sched_getaffinity(0)) // config.tune.workers))


@dataclass(frozen=True)
class Training:
    """The functions that train trials and final models, and write a configuration as YAML."""

    fold: TrainFold
    whole: TrainWhole
    to_yaml: ToYaml


def run_study(
    config: TuneConfig, study: optuna.Study, training: Training, workers: Processes = ()
) -> int:
    """Run trials until the study is full, then finish it; returns the exit code.

    `workers` are the other workers of this machine: ended on a signal, waited for otherwise.
    """
    objective = Objective(config, study, training.fold, training.to_yaml)
    try:
        Worker(config, study, objective).work()
        code = finish(config, study, training.whole, training.to_yaml)
    except (KeyboardInterrupt, SystemExit) as stop:
        end_workers(workers)
        print_status(f"{stop_name(stop)}: repeat the command to go on with the study")
        return stop_code(stop)
    except StorageInternalError as error:
        end_workers(workers)
        raise LeakdetError(
            "The study's storage does not answer, or was replaced: "
            f"{first_line(error.__cause__ or error)}. Repeat the command to go on."
        ) from error
    except BaseException:  # such as a full disk
        end_workers(workers)
        raise
    wait_for_workers(workers)
    return code
