import pytest

from leakdet.config import (
    AugmentConfig,
    AveragingConfig,
    DataConfig,
    OptimizerConfig,
    StopConfig,
    TrainConfig,
)
from leakdet.errors import SettingsError


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (DataConfig, {"batch_size": -1}, r"data\.batch_size=-1"),
        (DataConfig, {"residency": "gpu"}, "one of auto, device, ram, stream"),
        (OptimizerConfig, {"lr": float("inf")}, r"optimizer\.lr=inf"),
        (AugmentConfig, {"mask_mels": -1}, r"augment\.mask_mels=-1"),
        (AugmentConfig, {"interference_db": [0.0, -20.0]}, "the lower one first"),
        (AveragingConfig, {"ema_decay": 1.0}, r"averaging\.ema_decay=1\.0"),
        (OptimizerConfig, {"name": "sgd"}, "one of adamw, adam"),
        (StopConfig, {"name": "never"}, "one of auto, val, fixed"),
        (StopConfig, {"passes": 0}, r"stop\.passes=0"),
        (TrainConfig, {"patience": 0}, "^patience=0"),
        (TrainConfig, {"init_reset": ["weights"]}, "one of optimizer, schedule, best_score"),
        (TrainConfig, {"resume": "auto", "init_from": "a"}, "null together with resume"),
    ],
)
def test_a_bad_value_names_the_setting_and_what_is_allowed(kind, changes, message: str):
    with pytest.raises(SettingsError, match=message):
        kind(**changes)
