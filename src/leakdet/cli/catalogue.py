"""Every setting of a settings dataclass, and every argument of `lightning.Trainer`, by its name."""

from collections.abc import Iterator, Sequence
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

TRAINER_FLAGS = {
    "accelerator": "Where training runs: cpu, gpu or auto.",
    "devices": "Number of devices, or a list of their numbers.",
    "max_epochs": "Epochs at most.",
    "gradient_clip_val": "Norm to which gradients are clipped; null: off.",
    "accumulate_grad_batches": "Batches of one optimizer step.",
    "check_val_every_n_epoch": "Epochs from one validation check to the next.",
    "precision": "Arithmetic: 32-true, bf16-mixed, 16-mixed.",
}
# of lightning.Trainer; this list is here because importing Lightning takes seconds
LIGHTNING_ARGUMENTS = (
    "accelerator", "accumulate_grad_batches", "barebones", "benchmark", "callbacks",
    "check_val_every_n_epoch", "default_root_dir", "detect_anomaly", "deterministic", "devices",
    "enable_autolog_hparams", "enable_checkpointing", "enable_model_summary",
    "enable_progress_bar", "fast_dev_run", "gradient_clip_algorithm", "gradient_clip_val",
    "inference_mode", "limit_predict_batches", "limit_test_batches", "limit_train_batches",
    "limit_val_batches", "log_every_n_steps", "logger", "max_epochs", "max_steps", "max_time",
    "min_epochs", "min_steps", "model_registry", "num_nodes", "num_sanity_val_steps",
    "overfit_batches", "plugins", "precision", "profiler", "reload_dataloaders_every_n_epochs",
    "strategy", "sync_batchnorm", "use_distributed_sampler", "val_check_interval",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """One setting: its dotted name, type, default, meaning with unit, and allowed values.

    `names`: people give names of their own, such as labels, one or a list or mapping of them.
    """

    name: str
    kind: type
    default: Any
    meaning: str
    allowed: str
    names: bool = False
    choices: Sequence[str] = ()  # the values, where they are listed
    optional: bool = True  # null is a value too

    @property
    def open(self) -> bool:
        """True if any key is allowed below it, as under `trainer` and `network.extra`."""
        return self.kind is dict and not self.names


def catalogue(schema: type[Any], prefix: str = "") -> Iterator[Setting]:
    """Every setting of a settings dataclass, in the order of its fields."""
    types = get_type_hints(schema)
    for known in fields(schema):
        # learn.from is the field from_: a word of Python's cannot name a field
        name, kind = prefix + known.name.rstrip("_"), types[known.name]
        if is_dataclass(kind):
            assert isinstance(kind, type)
            yield from catalogue(kind, name + ".")
            continue
        factory = known.default_factory
        default = known.default if factory is NO_DEFAULT else factory()
        allowed = known.metadata.get("allowed")
        meaning = known.metadata.get("meaning", "")
        names = known.metadata.get("names")
        choices = allowed.one_of if allowed else ()
        optional = kind is Any or NoneType in get_args(kind)
        kind = names or _plain(kind)
        given_names = bool(names)
        yield Setting(
            name, kind, default, meaning, str(allowed or ""), given_names, choices, optional
        )


def trainer_flag(flag: str, allowed: str = "") -> Setting:
    """An argument of `lightning.Trainer` that conf/trainer/ sets."""
    meaning = TRAINER_FLAGS.get(flag, "Argument of lightning.Trainer.")
    return Setting(f"trainer.{flag}", object, None, meaning, allowed)


def _plain(kind: Any) -> type:
    """`str` of `str | None`, `list` of `list[float]`, `object` of anything."""
    if isinstance(kind, UnionType):
        parts = [part for part in get_args(kind) if part is not NoneType]
        if len(parts) > 1:
            return object
        kind = parts[0]
    kind = get_origin(kind) or kind
    return kind if isinstance(kind, type) else object
