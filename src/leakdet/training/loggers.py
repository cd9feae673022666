"""The loggers of a run, all of which write into its folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger, TensorBoardLogger

from leakdet.errors import SettingsError
from leakdet.training import log_names
from leakdet.training.resumable_csv_logger import ResumableCSVLogger

LOGGERS = ("csv", "tensorboard", "wandb", "mlflow")


def make_loggers(settings: Mapping[str, Any], run_folder: Path) -> list[Logger]:
    """A logger per key of `settings`, whose value holds the logger's own arguments.

    Raises:
        SettingsError: a logger or an argument does not exist, or a package is not installed.
    """
    loggers = []
    for name, arguments in settings.items():
        try:
            loggers.append(_logger(name, dict(arguments or {}), run_folder))
        except TypeError as error:
            raise SettingsError(
                f"logger.{name}: {error}. Allowed are the arguments of Lightning's logger."
            ) from error
    return loggers


def _logger(name: str, arguments: dict[str, Any], run_folder: Path) -> Logger:
    match name:
        case "csv":
            return ResumableCSVLogger(run_folder, **arguments)
        case "tensorboard":
            return TensorBoardLogger(run_folder, name="", version=log_names.LOGS, **arguments)
        case "wandb" | "mlflow":
            return _foreign_logger(name, arguments, run_folder)
    raise SettingsError(
        f"logger.{name}: there is no such logger; allowed are {', '.join(LOGGERS)}."
    )


def _foreign_logger(name: str, arguments: dict[str, Any], run_folder: Path) -> Logger:
    """Loggers whose packages leakdet does not install; by default they stay off the network."""
    from lightning.pytorch.loggers import MLFlowLogger, WandbLogger

    try:
        if name == "wandb":
            return WandbLogger(save_dir=run_folder, **{"offline": True, **arguments})
        return MLFlowLogger(**{"tracking_uri": (run_folder / "mlruns").as_uri(), **arguments})
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"logger={name} needs a package that is not installed: pip install {name}."
        ) from error
