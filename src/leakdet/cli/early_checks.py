"""Refuses a training that cannot begin, before torch is imported: paths, packages, accelerator."""

import ctypes
import shutil
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from leakdet._processes import is_child
from leakdet.config import TrainConfig, TrainerFlags
from leakdet.errors import InputError, SettingsError
from leakdet.storage.store_folder import require_store

LOGGER_PACKAGES = {"wandb": "wandb", "mlflow": "mlflow"}


def check_inputs(config: TrainConfig) -> None:
    """Look for everything that the settings name.

    Raises:
        InputError: a path that does not exist, or a folder that is no store.
        SettingsError: an optional package that is not installed, or no GPU where one is asked for.
    """
    if config.data.store is not None:
        require_store(Path(config.data.store))
    for name, path in (
        ("resume", None if config.resume == "auto" else config.resume),
        ("init_from", config.init_from),
        ("augment.interference", config.augment.interference),
    ):
        if path is not None and not Path(path).exists():
            raise InputError(f"{name}={path}: there is no such file or folder.")
    for logger in config.logger:
        package = LOGGER_PACKAGES.get(logger)
        if package and find_spec(package) is None:
            raise SettingsError(
                f"logger={logger} needs a package that is not installed: pip install {package}"
            )
    if TrainerFlags.of(config.trainer).accelerator in ("gpu", "cuda") and not has_gpu():
        raise SettingsError(
            "trainer=gpu: this machine has no GPU, or no driver for it. Train with trainer=cpu."
        )


def refuse_used_folder(folder: Path) -> None:
    """Raise `SettingsError` where a new run would overwrite another run's checkpoints."""
    # the checkpoint there may be one that this run's first process has just copied
    if is_child():
        return
    kept = sorted((folder / "checkpoints").glob("*.ckpt"))
    if kept:
        raise SettingsError(
            f"{folder}: holds a run already ({kept[0].name}). Continue it with resume=auto, or "
            "give another hydra.run.dir."
        )


def remove_unused(folder: Path) -> None:
    """Remove a run folder in which nothing but Hydra's notes lies, and its empty parents."""
    if {path.name for path in folder.iterdir()} <= {".hydra"}:
        shutil.rmtree(folder)
        with suppress(OSError):  # not empty
            folder.parent.rmdir()
            folder.parent.parent.rmdir()


def has_gpu() -> bool:
    """Whether a driver of NVIDIA, AMD or Apple is there; asks the system: torch takes seconds."""
    if sys.platform == "darwin" or Path("/dev/kfd").exists():
        return True
    for library in ("libcuda.so.1", "nvcuda.dll"):
        try:
            cuda, count = ctypes.CDLL(library), ctypes.c_int()
        except OSError:
            continue
        return (
            cuda.cuInit(0) == 0
            and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
            and count.value > 0
        )
    return False
