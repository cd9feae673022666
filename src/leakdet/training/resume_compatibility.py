"""Checks that a run continues a checkpoint: with the same data and the same settings.

Ignored are settings that affect neither weights nor metrics, only when training stops.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from leakdet.config import CallbacksConfig, TrainConfig, TrainerFlags
from leakdet.config.differences import differences
from leakdet.training.stopping import resolved

if TYPE_CHECKING:
    from leakdet.training.datamodule import LeakDataModule

RESUME_KEY = "leakdet_resume"  # in a checkpoint: what resuming needs beyond Lightning's own state
IGNORED = frozenset(
    """resume init_from init_reset find_lr find_batch_size patience loss_patience stop.passes
    data.shuffle_repeats compile compile_mode compile_fullgraph log profile profile_steps
    trust_network""".split()
) | {f"callbacks.{field.name}" for field in fields(CallbacksConfig) if field.name != "extra"}
IGNORED_PREFIXES = ("logger", "data.store", "data.cache", "demo")
IGNORED_OF_TRAINER = frozenset(
    """max_epochs max_steps max_time min_epochs min_steps accelerator devices strategy num_nodes
    enable_progress_bar enable_model_summary log_every_n_steps num_sanity_val_steps profiler
    benchmark deterministic detect_anomaly""".split()
)
# settings that a finder chose when the run began, and what switches it on
FINDERS = {"optimizer.lr": "find_lr", "data.batch_size": "find_batch_size"}


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


def run_differences(
    checkpoint: Mapping[str, Any], config: TrainConfig, data: "LeakDataModule"
) -> list[str]:
    """`name: stored / now` of everything that would make the continuation another run."""
    stored = _with_defaults(checkpoint.get("hyper_parameters", {}))
    chosen = [name for name, switch in FINDERS.items() if getattr(config, switch)]
    differing = [
        str(difference)
        for difference in differences(stored, asdict(resolved(config, data)))
        if difference.name not in chosen and not _is_ignored(difference.name)
    ]
    epoch, most = int(checkpoint.get("epoch", 0)), TrainerFlags.of(config.trainer).max_epochs
    if 0 <= most < epoch:
        differing.append(f"trainer.max_epochs: epoch {epoch + 1} was reached / {most}")
    store, stored_store = store_fingerprint(data), checkpoint.get(RESUME_KEY, {}).get("store")
    if store != stored_store:
        differing.append(f"the data's fingerprint: {stored_store} / {store}")
    return differing


def with_chosen_settings(config: TrainConfig, checkpoint: Mapping[str, Any]) -> TrainConfig:
    """The settings with the rate and batch size that the run's finders chose when it began."""
    stored = checkpoint["hyper_parameters"]
    if config.find_lr:
        config = replace(config, optimizer=replace(config.optimizer, lr=stored["optimizer"]["lr"]))
    if config.find_batch_size:
        config = replace(config, data=replace(config.data, batch_size=stored["data"]["batch_size"]))
    return config


def _is_ignored(name: str) -> bool:
    return (
        name in IGNORED
        or name.removeprefix("trainer.") in IGNORED_OF_TRAINER
        or any(name == prefix or name.startswith(f"{prefix}.") for prefix in IGNORED_PREFIXES)
    )


def _with_defaults(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a checkpoint; what its version lacked is at its default, or as it was then."""
    complete = asdict(TrainConfig())
    complete["stop"]["name"] = "val"
    for name, value in stored.items():
        group = complete.get(name)
        both = isinstance(group, dict) and isinstance(value, dict)
        complete[name] = {**group, **value} if both else value  # type: ignore[dict-item]
    return complete
