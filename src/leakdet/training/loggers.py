"""The loggers of a run, all of which write into its folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger, TensorBoardLogger

from leakdet.config.train import LOGGERS
from leakdet.errors import SettingsError
from leakdet.training import log_names
from leakdet.training.resumable_csv_logger import ResumableCSVLogger

SCORES = ("auroc", "f1", "recall", "fpr")  # of recordings, under HPARAMS


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
            # without its placeholder -1 in HPARAMS, where `log_scores` writes scores
            arguments = {"default_hp_metric": False, **arguments}
            return TensorBoardLogger(run_folder, name="", version=log_names.LOGS, **arguments)
        case "wandb" | "mlflow":
            return _foreign_logger(name, arguments, run_folder)
    raise SettingsError(
        f"logger.{name}: there is no such logger; allowed are {', '.join(LOGGERS)}."
    )


def log_scores(
    logger: TensorBoardLogger, settings: Mapping[str, Any], metrics: Mapping[str, Any]
) -> None:
    """Show a run's settings with its scores on the last split under HPARAMS of TensorBoard.

    `auroc_at_least`, the lower end of the AUROC's 95 % interval, is the one to sort runs by: it
    flatters none that was scored on few recordings.
    """
    split = metrics["splits"][-1]
    table = metrics[split]["recording"]
    scores = {f"{split}/{name}": table[name] for name in SCORES}
    interval = table["intervals"]["auroc"]
    scores[f"{split}/auroc_at_least"] = interval[0] if interval else None
    known = {f"{log_names.RESULTS}{name}": v for name, v in scores.items() if v is not None}
    logger.log_hyperparams(dict(settings), known)


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
