"""The settings of each door: their type, their groups, and the names on its command line."""

from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from leakdet.cli.command_line import Known, catalogue, trainer_flag
from leakdet.config import (
    BuildConfig,
    CallbacksConfig,
    CrossvalConfig,
    LearnConfig,
    TrainConfig,
    TuneConfig,
)
from leakdet.config.train import ALLOWED, LOGGERS
from leakdet.core.errors import InputError

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
    "loss": {name: {"name": name} for name in ("ce", "weighted_ce", "focal")},
    "network": {name: {"name": name} for name in ("paper", "dual_head", "linear", "compact")},
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


def store_options() -> None:
    """Make the options known to Hydra, beside those of conf/."""
    from hydra.core.config_store import ConfigStore

    for group, options in OPTIONS.items():
        for name, values in options.items():
            ConfigStore.instance().store(group=group, name=name, node=values)


def option_names() -> dict[str, list[str]]:
    """The options of each group, with and without a file in conf/."""
    names = {group: set(options) for group, options in OPTIONS.items()}
    for path in conf_folder().glob("*/*.yaml"):
        names.setdefault(path.parent.name, set()).add(path.stem)
    return {group: sorted(options) for group, options in sorted(names.items())}


@dataclass(frozen=True)
class DoorSettings:
    """The type of a door's settings, and those below which any key is allowed.

    `swept` is the only setting that may have several values with -m, where the jobs share their
    work; `advice` is for others.
    """

    schema: type[Any]
    free_keys: tuple[str, ...] = ()
    swept: str | None = None
    advice: str = ""


OWN_KEYS = ("network.extra", "loss.extra", *(f"logger.{name}" for name in LOGGERS))
DOORS = {
    "build": DoorSettings(BuildConfig),
    "train": DoorSettings(TrainConfig, OWN_KEYS),
    "tune": DoorSettings(
        TuneConfig,
        OWN_KEYS,
        swept="tune.worker",
        advice="tune works at one study. Search this setting (docs/tuning.md), or run the command "
        "once for each value, each with its own tune.study",
    ),
    "crossval": DoorSettings(
        CrossvalConfig,
        ("crossval.where", "crossval.protocols", *OWN_KEYS),
        swept="crossval.part",
        advice="the jobs of one crossval share their folds. Run the command once for each value",
    ),
    "learn": DoorSettings(LearnConfig, OWN_KEYS),
}


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
