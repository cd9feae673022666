"""Is a run the continuation of a checkpoint? Settings and data must be the same, but for what changes no number.

What is free changes no number, or only where the run ends.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from leakdet.config import CallbacksConfig, TrainConfig

if TYPE_CHECKING:
    from leakdet.training.datamodule import LeakDataModule

RESUME_KEY = "leakdet_resume"  # of the checkpoint: what resuming needs beyond Lightning's own state
FREE = frozenset(
    "resume init_from init_reset find_lr find_batch_size patience loss_patience compile".split()
) | {f"callbacks.{field.name}" for field in fields(CallbacksConfig) if field.name != "extra"}
FREE_PREFIXES = ("logger", "data.store", "data.cache", "demo")
FREE_TRAINER = frozenset(
    "max_epochs max_steps max_time min_epochs min_steps accelerator devices strategy num_nodes enable_progress_bar "
    "enable_model_summary log_every_n_steps num_sanity_val_steps profiler benchmark deterministic detect_anomaly".split()
)
FOUND = {
    "optimizer.lr": "find_lr",
    "data.batch_size": "find_batch_size",
}  # set by a finder when the run began


def store_fingerprint(data: "LeakDataModule") -> str:
    """Twelve hex digits of what the run is trained on, wherever it lies: the recordings, their windows, labels and signal."""
    digest = hashlib.sha256()
    for split in (data.splits.train, data.splits.val):
        digest.update(
            f"{split.signal.hash if split.signal else None} {split.label_names} {split.mel.shape}".encode()
        )
        digest.update(np.ascontiguousarray(split.recording_offsets, dtype=np.int64).tobytes())
        digest.update(np.ascontiguousarray(split.label_id, dtype=np.int64).tobytes())
        digest.update("\n".join(split.recording_ids.tolist()).encode())
        digest.update(split.numbers("weight", default=1.0).astype(np.float64).tobytes())
        if split.checksums is not None:
            digest.update(np.ascontiguousarray(split.checksums, dtype=np.int64).tobytes())
    return digest.hexdigest()[:12]


def differences(
    checkpoint: Mapping[str, Any], config: TrainConfig, data: "LeakDataModule"
) -> list[str]:
    """`name: there / now` of all that would make the continuation another run."""
    # a setting that the checkpoint's version did not have yet was at its default
    there = _flat(asdict(TrainConfig())) | _flat(checkpoint.get("hyper_parameters", {}))
    now = _flat(asdict(config))
    found = [name for name, sought in FOUND.items() if now[sought]]
    differing = [
        f"{name}: {there.get(name)} / {now.get(name)}"
        for name in sorted(there.keys() | now.keys())
        if there.get(name) != now.get(name) and name not in found and not _is_free(name)
    ]
    mine, theirs = store_fingerprint(data), checkpoint.get(RESUME_KEY, {}).get("store")
    if mine != theirs:
        differing.append(f"the data's fingerprint: {theirs} / {mine}")
    return differing


def as_found(config: TrainConfig, checkpoint: Mapping[str, Any]) -> TrainConfig:
    """The settings with the rate and batch size that the run's finders chose at its beginning."""
    there = checkpoint["hyper_parameters"]
    if config.find_lr:
        config = replace(config, optimizer=replace(config.optimizer, lr=there["optimizer"]["lr"]))
    if config.find_batch_size:
        config = replace(config, data=replace(config.data, batch_size=there["data"]["batch_size"]))
    return config


def _is_free(name: str) -> bool:
    if name in FREE or name.removeprefix("trainer.") in FREE_TRAINER:
        return True
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in FREE_PREFIXES)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= (
            _flat(value, f"{prefix}{name}.")
            if isinstance(value, Mapping)
            else {f"{prefix}{name}": value}
        )
    return flat
