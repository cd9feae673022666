"""Whether a run continues a checkpoint: the same data, and the same settings but for ignored ones.

Ignored settings affect neither weights nor metrics, only when training stops.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from leakdet.config import CallbacksConfig, TrainConfig

if TYPE_CHECKING:
    from leakdet.training.datamodule import LeakDataModule

RESUME_KEY = "leakdet_resume"  # in a checkpoint: what resuming needs beyond Lightning's own state
IGNORED = frozenset(
    "resume init_from init_reset find_lr find_batch_size patience loss_patience compile".split()
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


def differences(
    checkpoint: Mapping[str, Any], config: TrainConfig, data: "LeakDataModule"
) -> list[str]:
    """`name: there / now` of everything that would make the continuation another run."""
    # a setting that the checkpoint's version did not have yet was at its default
    there = _flat(asdict(TrainConfig())) | _flat(checkpoint.get("hyper_parameters", {}))
    now = _flat(asdict(config))
    chosen = [name for name, switch in FINDERS.items() if now[switch]]
    differing = [
        f"{name}: {there.get(name)} / {now.get(name)}"
        for name in sorted(there.keys() | now.keys())
        if there.get(name) != now.get(name) and name not in chosen and not _is_ignored(name)
    ]
    ours, theirs = store_fingerprint(data), checkpoint.get(RESUME_KEY, {}).get("store")
    if ours != theirs:
        differing.append(f"the data's fingerprint: {theirs} / {ours}")
    return differing


def with_chosen_settings(config: TrainConfig, checkpoint: Mapping[str, Any]) -> TrainConfig:
    """The settings with the rate and batch size that the run's finders chose when it began."""
    there = checkpoint["hyper_parameters"]
    if config.find_lr:
        config = replace(config, optimizer=replace(config.optimizer, lr=there["optimizer"]["lr"]))
    if config.find_batch_size:
        config = replace(config, data=replace(config.data, batch_size=there["data"]["batch_size"]))
    return config


def _is_ignored(name: str) -> bool:
    return (
        name in IGNORED
        or name.removeprefix("trainer.") in IGNORED_OF_TRAINER
        or any(name == prefix or name.startswith(f"{prefix}.") for prefix in IGNORED_PREFIXES)
    )


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        nested = isinstance(value, Mapping)
        flat |= _flat(value, f"{prefix}{name}.") if nested else {f"{prefix}{name}": value}
    return flat
