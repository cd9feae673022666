"""Going on with an interrupted run: which checkpoint, and whether it fits (`sameness`); `moving` brings it here."""

from pathlib import Path
from typing import TYPE_CHECKING

from leakdet._messages import LOG
from leakdet._processes import is_child, parent_decision, share_decision
from leakdet.config import TrainConfig
from leakdet.errors import InputError, SettingsError
from leakdet.training import log_names
from leakdet.training.checkpoint_io import read_checkpoint
from leakdet.training.checkpoint_transfer import moved
from leakdet.training.resume_compatibility import differences

if TYPE_CHECKING:
    from leakdet.training.datamodule import LeakDataModule

DECIDED = "LEAKDET_RESUME_FROM"  # environment variable by which a run tells its child processes


def starting_checkpoint(
    config: TrainConfig, data: "LeakDataModule", run_folder: Path
) -> Path | None:
    """The checkpoint from which to go on, moved into `run_folder` together with the best ones; None to begin anew.

    Raises:
        InputError: `resume` names nothing that can be resumed.
        SettingsError: it was trained with other settings or on other data; or `auto` where another program has started the
            processes, which then cannot agree.
    """
    if config.resume is None:
        return None
    told = parent_decision(DECIDED)
    if told is not None:
        return Path(told) if told else None
    # of a launcher such as torchrun: the first process moves the files, this one only reads
    if is_child():
        if config.resume == "auto":
            raise SettingsError(
                "resume=auto: another program has started these processes, and each would look for itself. Name the "
                "checkpoint, as in resume=FOLDER/checkpoints/last.ckpt, or let leakdet start them (trainer.devices=N)."
            )
        return _found(config, data, run_folder)
    found = _found(config, data, run_folder)
    if found is None:
        share_decision(DECIDED, "")
        return None
    LOG.info(f"resume   {found}")
    return Path(share_decision(DECIDED, str(moved(found, run_folder / log_names.CHECKPOINTS))))


def _found(config: TrainConfig, data: "LeakDataModule", run_folder: Path) -> Path | None:
    if config.resume == "auto":
        return _newest_fitting(config, data, run_folder)
    found = _given(Path(str(config.resume)))
    _require_fitting(found, config, data)
    return found


def _require_fitting(found: Path, config: TrainConfig, data: "LeakDataModule") -> None:
    differing = differences(read_checkpoint(found), config, data)
    if differing:
        raise SettingsError(
            f"{found} was trained with other settings (there / now): {'; '.join(differing)}. Give the same ones"
            f"{_said_then(found)}, or begin a new training from its weights with init_from={found}."
        )


def refuse_overwriting(run_folder: Path) -> None:
    """Raises `SettingsError` where a new run would write over another run's checkpoints."""
    # the checkpoint there may be one that this run's first process has just inherited
    if is_child():
        return
    kept = sorted((run_folder / log_names.CHECKPOINTS).glob(f"*{log_names.ENDING}"))
    if kept:
        raise SettingsError(
            f"{run_folder}: holds a run already ({kept[0].name}). Go on with it by resume=auto, or give another hydra.run.dir."
        )


def _given(place: Path) -> Path:
    if place.is_dir():
        folder = (
            place / log_names.CHECKPOINTS if (place / log_names.CHECKPOINTS).is_dir() else place
        )
        found = newest_whole(folder)
        if found is None:
            raise InputError(f"{place}: there is no whole checkpoint to resume from.")
        return found
    read_checkpoint(place)
    return place


def newest_whole(folder: Path) -> Path | None:
    """`last.ckpt`, or the newest whole checkpoint where it is damaged or missing; says so."""
    last = folder / f"{log_names.LAST}{log_names.ENDING}"
    whole: list[tuple[int, Path]] = []
    for path in sorted(folder.glob(f"*{log_names.ENDING}")):
        try:
            step = int(read_checkpoint(path)["global_step"])
        except InputError as error:
            LOG.info(f"note     {error}")
            continue
        if path == last:
            return path
        whole.append((step, path))
    if not whole:
        return None
    found = max(whole)[1]
    LOG.info(f"note     {last} is damaged or missing; the newest whole checkpoint is {found.name}")
    return found


def _newest_fitting(config: TrainConfig, data: "LeakDataModule", run_folder: Path) -> Path | None:
    """This folder's own run, or else the newest unfinished one beside it with the same settings and data."""
    own = newest_whole(run_folder / log_names.CHECKPOINTS)
    if own is not None:
        _require_fitting(own, config, data)
        return own
    others = [
        folder
        for folder in run_folder.parent.glob(f"*/{log_names.CHECKPOINTS}")
        if not (folder.parent / "metrics.json").exists()
        and any(folder.glob(f"*{log_names.ENDING}"))
    ]
    refused = ""
    for folder in sorted(others, key=_changed, reverse=True):
        found = newest_whole(folder)
        if found is None:
            continue
        differing = differences(read_checkpoint(found), config, data)
        if not differing:
            return found
        refused = (
            refused
            or f"; {found} differs in (there / now) {'; '.join(differing)}{_said_then(found)}"
        )
    LOG.info(f"resume   nothing to go on with{refused}: beginning anew")
    return None


def _changed(folder: Path) -> float:
    return max(path.stat().st_mtime for path in folder.glob(f"*{log_names.ENDING}"))


def _said_then(checkpoint: Path) -> str:
    """The command line of the run that a checkpoint belongs to, as Hydra noted it."""
    noted = checkpoint.parent.parent / ".hydra" / "overrides.yaml"
    if not noted.is_file():
        return ""
    lines = [line.removeprefix("- ") for line in noted.read_text(encoding="utf-8").splitlines()]
    kept = [line for line in lines if line.strip("[] ") and not line.startswith("resume=")]
    return f" (then: {' '.join(kept) or 'none'})"
