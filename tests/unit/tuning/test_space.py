import optuna
import pytest

from leakdet.config import SearchParam, TrainConfig
from leakdet.core.errors import SettingsError
from leakdet.tuning.space import check_space, draw, grid, ordered, settings_of, with_settings

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


@pytest.mark.parametrize(
    ("param", "said"),
    [
        (SearchParam(setting="optimizer.lrr", low=0.1, high=1.0), "did you mean lr"),
        (SearchParam(setting="optimizer", low=0.1, high=1.0), "group of settings"),
        (SearchParam(setting="optimizer.lr", low=1.0, high=0.1), "low below high"),
        (SearchParam(setting="optimizer.lr", low=0.1), "low below high"),
        (SearchParam(setting="optimizer.lr", low=0.0, high=1.0, log=True), "above 0"),
        (SearchParam(setting="optimizer.lr", low=0.1, high=1.0, log=True, step=0.1), "without log"),
        (SearchParam(setting="optimizer.lr", low=-1.0, high=1.0), "out of the range"),
        (SearchParam(setting="network.dropout", low=0.1, high=1.5), "out of the range"),
        (SearchParam(setting="data.batch_size", low=1.0, high=9.0), "kind: int"),
        (SearchParam(setting="data.batch_size", kind="int", low=1.5, high=9.0), "whole numbers"),
        (
            SearchParam(setting="network.name", kind="categorical", choices=["paper", "cross"]),
            "out of the range",
        ),
        (SearchParam(setting="network.name", kind="categorical", choices=[]), "at least one"),
        (
            SearchParam(setting="network.name", kind="categorical", choices=["paper", "paper"]),
            "twice",
        ),
        (SearchParam(setting="compile", kind="categorical", choices=[0, 1]), "not searched"),
        (SearchParam(setting="patience", kind="categorical", choices=[True, 3]), "not allowed"),
        (SearchParam(setting="decision.threshold", low=0.1, high=0.9), "not searched"),
        (SearchParam(setting="seed", kind="int", low=0.0, high=9.0), "not searched"),
        (
            SearchParam(setting="loss.gamma", low=1.0, high=2.0, when={"los": ["focal"]}),
            "must name a categorical",
        ),
        (
            SearchParam(setting="loss.gamma", low=1.0, high=2.0, when={"loss": ["foca"]}),
            "some of its choices",
        ),
        (
            SearchParam(setting="loss.name", kind="categorical", choices=["ce"]),
            "by another parameter",
        ),
        (SearchParam(low=0.1, high=1.0), "switch"),
    ],
)
def test_a_faulty_parameter_is_refused_with_its_name(param: SearchParam, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        check_space({"loss": LOSS, "faulty": param}, TrainConfig())
    assert "search." in str(caught.value)


def test_a_circle_and_an_empty_space_are_refused() -> None:
    one = SearchParam(kind="categorical", choices=[1, 2], when={"b": [1]})
    other = SearchParam(kind="categorical", choices=[1, 2], when={"a": [1]})
    with pytest.raises(SettingsError, match="circle"):
        check_space({"a": one, "b": other}, TrainConfig())
    with pytest.raises(SettingsError, match="empty"):
        check_space({}, TrainConfig())


def test_a_space_of_every_kind_is_accepted() -> None:
    space = {
        "loss": LOSS,
        "gamma": SearchParam(setting="loss.gamma", low=1.0, high=3.0, when={"loss": ["focal"]}),
        "clipping": SearchParam(kind="categorical", choices=[True, False]),
        "clip": SearchParam(
            setting="trainer.gradient_clip_val",
            low=0.5,
            high=2.0,
            when={"clipping": [True]},
            otherwise=0.0,
        ),
        "batch": SearchParam(setting="data.batch_size", kind="int", low=8.0, high=64.0, step=8.0),
        "lr": SearchParam(setting="optimizer.lr", low=1e-4, high=1e-1, log=True),
        "residency": SearchParam(setting="data.residency", kind="categorical", choices=["ram"]),
    }
    check_space(space, TrainConfig())
