"""Resuming an interrupted run: which checkpoint to start from, and whether it fits this run.

Ignored are settings that affect neither weights nor metrics, only when training stops.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leakdet.config import CallbacksConfig, TrainConfig, TrainerFlags
from leakdet.config.fields import differences
from leakdet.core.errors import InputError, SettingsError
from leakdet.core.messages import LOG
from leakdet.core.process import is_child, parent_decision, share_decision
from leakdet.training import log_names
from leakdet.training.checkpoints import read_checkpoint, transfer

if TYPE_CHECKING:
    from leakdet.training.datamodule import LeakDataModule

RESUME_KEY = "leakdet_resume"  # in a checkpoint: what resuming needs beyond Lightning's own state
IGNORED = frozenset(
    """resume init_from init_reset find_lr patience loss_patience stop.passes
    data.shuffle_repeats compile compile_mode compile_fullgraph log profile profile_steps
    trust_network""".split()
) | {f"callbacks.{field.name}" for field in fields(CallbacksConfig) if field.name != "extra"}
IGNORED_PREFIXES = ("logger", "data.store", "data.cache", "demo")
IGNORED_OF_TRAINER = frozenset(
    """max_epochs max_steps max_time min_epochs min_steps accelerator devices strategy num_nodes
    enable_progress_bar enable_model_summary log_every_n_steps num_sanity_val_steps profiler
    benchmark deterministic detect_anomaly""".split()
)


def store_fingerprint(data: "LeakDataModule") -> str:
    """Twelve hex digits of the recordings, windows, labels and signal, wherever the store lies."""
    digest = hashlib.sha256()
    for split in (data.splits.train, data.splits.val):
        signal = split.signal.hash if split.signal else None
        digest.update(f"{signal} {split.label_names} {split.mel.shape}".encode())
        digest.update(np.ascontiguousarray(split.recording_offsets, dtype=np.int64).tobytes())
        digest.update(np.ascontiguousarray(split.label_id, dtype=np.int64).tobytes())
        digest.update("\n".join(split.recording_ids.tolist()).encode())
        digest.update(split.numbers("weight", default=1.0).astype(np.float64).tobytes())
        if split.checksums is not None:
            digest.update(np.ascontiguousarray(split.checksums, dtype=np.int64).tobytes())
    return digest.hexdigest()[:12]


def run_differences(checkpoint: Mapping[str, Any], data: "LeakDataModule") -> list[str]:
    """`name: stored / now` of everything that would make the continuation another run."""
    stored = _with_defaults(checkpoint.get("hyper_parameters", {}))
    chosen = ["optimizer.lr"] if data.given.find_lr else []
    chosen += ["data.batch_size"] if not data.given.data.batch_size else []
    differing = [
        str(difference)
        for difference in differences(stored, asdict(data.config))
        if difference.name not in chosen and not _is_ignored(difference.name)
    ]
    epoch, most = int(checkpoint.get("epoch", 0)), TrainerFlags.of(data.given.trainer).max_epochs
    if 0 <= most < epoch:
        differing.append(f"trainer.max_epochs: epoch {epoch + 1} was reached / {most}")
    store, stored_store = store_fingerprint(data), checkpoint.get(RESUME_KEY, {}).get("store")
    if store != stored_store:
        differing.append(f"the data's fingerprint: {stored_store} / {store}")
    return differing


def with_chosen_settings(data: "LeakDataModule", checkpoint: Mapping[str, Any]) -> TrainConfig:
    """The settings with the rate and batch size that leakdet chose when the run began."""
    stored, config = checkpoint["hyper_parameters"], data.config
    if config.find_lr:
        config = replace(config, optimizer=replace(config.optimizer, lr=stored["optimizer"]["lr"]))
    if not data.given.data.batch_size:
        config = replace(config, data=replace(config.data, batch_size=stored["data"]["batch_size"]))
    return config


def _is_ignored(name: str) -> bool:
    return (
        name in IGNORED
        or name.removeprefix("trainer.").split(".")[0] in IGNORED_OF_TRAINER
        or any(name == prefix or name.startswith(f"{prefix}.") for prefix in IGNORED_PREFIXES)
    )


def _with_defaults(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a checkpoint, without removed ones; what its version lacked is at its default."""
    complete = asdict(TrainConfig())
    for name, value in stored.items():
        if name not in complete:
            continue
        group = complete.get(name)
        both = isinstance(group, dict) and isinstance(value, dict)
        complete[name] = {**group, **value} if both else value  # type: ignore[dict-item]
    return complete


DECIDED = "LEAKDET_RESUME_FROM"  # environment variable by which a run tells its child processes


def starting_checkpoint(data: "LeakDataModule", run_folder: Path) -> Path | None:
    """The checkpoint to resume from, transferred into `run_folder`; None for a new run."""
    if data.given.resume is None:
        return None
    decision = parent_decision(DECIDED)
    if decision is not None:
        return Path(decision) if decision else None
    # started by a launcher such as torchrun: the first process transfers, this one only reads
    if is_child():
        if data.given.resume == "auto":
            raise SettingsError(
                "resume=auto: another program has started these processes, and each would search "
                "by itself. Name the checkpoint, as in resume=FOLDER/checkpoints/last.ckpt, or let "
                "leakdet start them (trainer.devices=N)."
            )
        return _chosen(data, run_folder)
    checkpoint = _chosen(data, run_folder)
    if checkpoint is None:
        share_decision(DECIDED, "")
        return None
    LOG.info(f"resume   {checkpoint}")
    transferred = transfer(checkpoint, run_folder / log_names.CHECKPOINTS)
    return Path(share_decision(DECIDED, str(transferred)))


def _chosen(data: "LeakDataModule", run_folder: Path) -> Path | None:
    if data.given.resume == "auto":
        return _newest_fitting(data, run_folder)
    checkpoint = _named(Path(str(data.given.resume)))
    _require_fitting(checkpoint, data)
    return checkpoint


def _require_fitting(checkpoint: Path, data: "LeakDataModule") -> None:
    differing = run_differences(read_checkpoint(checkpoint), data)
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


def _newest_fitting(data: "LeakDataModule", run_folder: Path) -> Path | None:
    """This folder's run, or the newest unfinished one beside it with the same settings and data."""
    checkpoint = newest_checkpoint(run_folder / log_names.CHECKPOINTS)
    if checkpoint is not None:
        _require_fitting(checkpoint, data)
        return checkpoint
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
        differing = run_differences(read_checkpoint(checkpoint), data)
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
