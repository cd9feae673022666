"""Every setting of leakdet: its type, default, unit and allowed range.

The doors compose these dataclasses with Hydra and hand plain objects down. Fields hold primitives only, so
`dataclasses.asdict` is at once the checkpoint's hyper-parameters, the model file's JSON and the report's appendix.
Range checks live in `__post_init__`, which runs when a composed configuration becomes an object, before any work.
"""

from leakdet.config.build import BuildConfig, DemoConfig, LabelsConfig, SplitConfig
from leakdet.config.callbacks import CallbacksConfig
from leakdet.config.crossval import CrossvalConfig, CrossvalSettings, ProtocolConfig
from leakdet.config.range_checks import MISSING, from_dict
from leakdet.config.signal import SignalConfig
from leakdet.config.train import (
    INIT_PARTS,
    AugmentConfig,
    AveragingConfig,
    DataConfig,
    DecisionConfig,
    LossConfig,
    NetworkConfig,
    OptimizerConfig,
    TrainConfig,
)
from leakdet.config.trainer_flags import TrainerFlags
from leakdet.config.tune import SearchParam, TuneConfig, TuneSettings

__all__ = [
    "INIT_PARTS",
    "MISSING",
    "AugmentConfig",
    "AveragingConfig",
    "BuildConfig",
    "CallbacksConfig",
    "CrossvalConfig",
    "CrossvalSettings",
    "DataConfig",
    "DecisionConfig",
    "DemoConfig",
    "LabelsConfig",
    "LossConfig",
    "NetworkConfig",
    "OptimizerConfig",
    "ProtocolConfig",
    "SearchParam",
    "SignalConfig",
    "SplitConfig",
    "TrainConfig",
    "TrainerFlags",
    "TuneConfig",
    "TuneSettings",
    "from_dict",
]
