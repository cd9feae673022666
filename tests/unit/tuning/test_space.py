import optuna
import pytest

from leakdet.config import SearchParam, TrainConfig
from leakdet.errors import SettingsError
from leakdet.tuning.space import draw, grid, ordered, settings_of, with_settings

LOSS = SearchParam(setting="loss.name", kind="categorical", choices=["ce", "focal"])
GAMMA = SearchParam(setting="loss.gamma", low=1.0, high=3.0, when={"loss": ["focal"]})
SWITCH = SearchParam(kind="categorical", choices=[True, False])
CLIP = SearchParam(
    setting="trainer.gradient_clip_val", low=0.5, high=2.0, when={"clipping": [True]}, otherwise=0.0
)
SPACE = {"gamma": GAMMA, "loss": LOSS, "clip": CLIP, "clipping": SWITCH}


def test_conditions_decide_what_is_drawn_and_set() -> None:
    assert ordered(SPACE).index("loss") < ordered(SPACE).index("gamma")
    ce = draw(optuna.trial.FixedTrial({"loss": "ce", "clipping": False}), SPACE)
    assert ce == {"loss": "ce", "clipping": False}
    assert settings_of(SPACE, ce) == {"loss.name": "ce", "trainer.gradient_clip_val": 0.0}
    focal = draw(
        optuna.trial.FixedTrial({"loss": "focal", "gamma": 1.5, "clipping": True, "clip": 0.7}),
        SPACE,
    )
    config = with_settings(TrainConfig(), settings_of(SPACE, focal))
    assert (config.loss.name, config.loss.gamma, config.trainer["gradient_clip_val"]) == (
        "focal",
        1.5,
        0.7,
    )
    assert TrainConfig().loss.name == "ce"
    assert TrainConfig().trainer == {}


def test_grid_holds_what_can_be_drawn_and_nothing_twice() -> None:
    space = {
        "loss": LOSS,
        "warmup": SearchParam(
            setting="optimizer.warmup_epochs", kind="int", low=0.0, high=4.0, step=2.0
        ),
    }
    space["gamma"] = SearchParam(
        setting="loss.gamma", low=1.0, high=3.0, step=1.0, when={"loss": ["focal"]}
    )
    combinations = grid(space)
    assert len(combinations) == 3 + 3 * 3
    assert len({tuple(sorted(one.items())) for one in combinations}) == 3 + 3 * 3
    with pytest.raises(SettingsError, match="needs a step"):
        grid({"lr": SearchParam(setting="optimizer.lr", low=0.1, high=1.0)})


def test_a_copy_keeps_whole_numbers_of_float_settings_as_floats() -> None:
    config = with_settings(TrainConfig(), {"optimizer.weight_decay": 1, "trainer.a.b": 2})
    assert repr(config.optimizer.weight_decay) == "1.0"
    assert config.trainer == {"a": {"b": 2}}
