"""Every setting of leakdet: type, default, meaning with unit, and allowed values.

The doors compose these dataclasses with Hydra and pass plain objects down. Fields hold primitives
only, so that `dataclasses.asdict` serves checkpoints, model files and reports alike. Ranges are
checked in `__post_init__`, when a composed configuration becomes an object, before any work.
"""

from leakdet.config.build import BuildConfig, DemoConfig, LabelsConfig, SplitConfig
from leakdet.config.crossval import (
    CrossvalConfig,
    CrossvalSettings,
    FoldsConfig,
    MeasuredTrainConfig,
    ProtocolConfig,
)
from leakdet.config.fields import MISSING, from_dict
from leakdet.config.learn import LearnConfig, LearnSettings
from leakdet.config.model import DecisionConfig, LossConfig, NetworkConfig
from leakdet.config.signal import SignalConfig
from leakdet.config.train import (
    INIT_PARTS,
    AugmentConfig,
    AveragingConfig,
    CallbacksConfig,
    DataConfig,
    OptimizerConfig,
    StopConfig,
    TrainConfig,
    TrainerFlags,
)
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
    "FoldsConfig",
    "LabelsConfig",
    "LearnConfig",
    "LearnSettings",
    "LossConfig",
    "MeasuredTrainConfig",
    "NetworkConfig",
    "OptimizerConfig",
    "ProtocolConfig",
    "SearchParam",
    "SignalConfig",
    "SplitConfig",
    "StopConfig",
    "TrainConfig",
    "TrainerFlags",
    "TuneConfig",
    "TuneSettings",
    "from_dict",
]
