"""Resuming an interrupted run: which checkpoint to start from, and whether it fits this run."""

from pathlib import Path
from typing import TYPE_CHECKING

from leakdet._messages import LOG
from leakdet._processes import is_child, parent_decision, share_decision
from leakdet.config import TrainConfig
from leakdet.errors import InputError, SettingsError
from leakdet.training import log_names
from leakdet.training.checkpoint_io import read_checkpoint
from leakdet.training.checkpoint_transfer import transfer
from leakdet.training.resume_compatibility import run_differences

if TYPE_CHECKING:
    from leakdet.training.datamodule import LeakDataModule

DECIDED = "LEAKDET_RESUME_FROM"  # environment variable by which a run tells its child processes


def starting_checkpoint(
    config: TrainConfig, data: "LeakDataModule", run_folder: Path
) -> Path | None:
    """The checkpoint to resume from, transferred into `run_folder`; None for a new run.

    Raises:
        InputError: `resume` names nothing that can be resumed.
        SettingsError: it was trained with other settings or data; or `auto`, where processes that
            another program has started cannot agree.
    """
    if config.resume is None:
        return None
    decision = parent_decision(DECIDED)
    if decision is not None:
        return Path(decision) if decision else None
    # started by a launcher such as torchrun: the first process transfers, this one only reads
    if is_child():
        if config.resume == "auto":
            raise SettingsError(
                "resume=auto: another program has started these processes, and each would search "
                "by itself. Name the checkpoint, as in resume=FOLDER/checkpoints/last.ckpt, or let "
                "leakdet start them (trainer.devices=N)."
            )
        return _chosen(config, data, run_folder)
    checkpoint = _chosen(config, data, run_folder)
    if checkpoint is None:
        share_decision(DECIDED, "")
        return None
    LOG.info(f"resume   {checkpoint}")
    transferred = transfer(checkpoint, run_folder / log_names.CHECKPOINTS)
    return Path(share_decision(DECIDED, str(transferred)))


def _chosen(config: TrainConfig, data: "LeakDataModule", run_folder: Path) -> Path | None:
    if config.resume == "auto":
        return _newest_fitting(config, data, run_folder)
    checkpoint = _named(Path(str(config.resume)))
    _require_fitting(checkpoint, config, data)
    return checkpoint


def _require_fitting(checkpoint: Path, config: TrainConfig, data: "LeakDataModule") -> None:
    differing = run_differences(read_checkpoint(checkpoint), config, data)
    if differing:
        raise SettingsError(
            f"{checkpoint} was trained with other settings (its / now): {'; '.join(differing)}. "
            f"Give the same ones{_its_command(checkpoint)}, or begin a new training from its "
            f"weights with init_from={checkpoint}."
        )


def _named(place: Path) -> Path:
    """The checkpoint that `resume` names as a file, a run's folder or its checkpoints' folder."""
    if not place.is_dir():
        read_checkpoint(place)
        return place
    inside = place / log_names.CHECKPOINTS
    checkpoint = newest_checkpoint(inside if inside.is_dir() else place)
    if checkpoint is None:
        raise InputError(f"{place}: there is no whole checkpoint to resume from.")
    return checkpoint


def newest_checkpoint(folder: Path) -> Path | None:
    """`last.ckpt`, or with a note the newest undamaged checkpoint if that one cannot be read."""
    last = folder / f"{log_names.LAST}{log_names.ENDING}"
    others: list[tuple[int, Path]] = []
    for path in sorted(folder.glob(f"*{log_names.ENDING}")):
        try:
            step = int(read_checkpoint(path)["global_step"])
        except InputError as error:
            LOG.info(f"note     {error}")
            continue
        if path == last:
            return path
        others.append((step, path))
    if not others:
        return None
    newest = max(others)[1]
    LOG.info(f"note     {last} is damaged or missing; the newest whole checkpoint is {newest.name}")
    return newest


def _newest_fitting(config: TrainConfig, data: "LeakDataModule", run_folder: Path) -> Path | None:
    """This folder's run, or the newest unfinished one beside it with the same settings and data."""
    own = newest_checkpoint(run_folder / log_names.CHECKPOINTS)
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
    for folder in sorted(others, key=_modified_s, reverse=True):
        checkpoint = newest_checkpoint(folder)
        if checkpoint is None:
            continue
        differing = run_differences(read_checkpoint(checkpoint), config, data)
        if not differing:
            return checkpoint
        if not refused:
            refused = f"; {checkpoint} differs in (its / now) {'; '.join(differing)}"
            refused += _its_command(checkpoint)
    LOG.info(f"resume   there is nothing to resume{refused}: a new run begins")
    return None


def _modified_s(folder: Path) -> float:
    return max(path.stat().st_mtime for path in folder.glob(f"*{log_names.ENDING}"))


def _its_command(checkpoint: Path) -> str:
    """The command line of the run that a checkpoint belongs to, from what Hydra wrote."""
    overrides = checkpoint.parent.parent / ".hydra" / "overrides.yaml"
    if not overrides.is_file():
        return ""
    lines = overrides.read_text("utf-8", "replace").splitlines()
    given = [line.removeprefix("- ") for line in lines]
    given = [line for line in given if line.strip("[] ") and not line.startswith("resume=")]
    return f" (then: {' '.join(given) or 'none'})"
