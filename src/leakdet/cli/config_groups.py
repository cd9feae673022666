"""The configuration groups: where their files are, and the options that need no file."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from leakdet.config import CallbacksConfig
from leakdet.config.train import LOGGERS
from leakdet.errors import InputError

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
