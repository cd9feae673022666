"""Checks before the first trial of what every trial needs: settings, packages, a device."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from leakdet.config import TrainerFlags, TuneConfig
from leakdet.errors import SettingsError
from leakdet.storage.store import StoreSplit
from leakdet.tuning.space_check import check_space
from leakdet.tuning.trial_folds import trial_parts


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
    from leakdet.training.resume_compatibility import FINDERS
    from leakdet.training.settings_conflicts import check_settings  # imports torch

    for name, param in config.search.items():
        finder = FINDERS.get(param.setting)
        if finder and getattr(config, finder):
            raise SettingsError(
                f"{finder}=true: every trial would replace the {param.setting} that the study "
                f"draws, and the study would learn nothing of it. Leave {finder} out, or take "
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
