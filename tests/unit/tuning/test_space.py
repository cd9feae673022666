import optuna
import pytest

from leakdet.config import SearchParam, TrainConfig, TuneConfig
from leakdet.errors import SettingsError
from leakdet.tuning.space import check_space, draw, grid, ordered, settings_of, with_settings

LOSS = SearchParam(setting="loss.name", kind="categorical", choices=["ce", "focal"])
GAMMA = SearchParam(setting="loss.gamma", low=1.0, high=3.0, when={"loss": ["focal"]})
SWITCH = SearchParam(kind="categorical", choices=[True, False])
CLIP = SearchParam(
    setting="trainer.gradient_clip_val", low=0.5, high=2.0, when={"clipping": [True]}, otherwise=0.0
)
SPACE = {"gamma": GAMMA, "loss": LOSS, "clip": CLIP, "clipping": SWITCH}


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


def test_conditions_decide_what_is_drawn_and_set() -> None:
    check_space(SPACE, TrainConfig())
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
    found = grid(space)
    assert len(found) == 3 + 3 * 3
    assert len({tuple(sorted(one.items())) for one in found}) == len(found)
    with pytest.raises(SettingsError, match="needs a step"):
        grid({"lr": SearchParam(setting="optimizer.lr", low=0.1, high=1.0)})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"settings": "seed"}, "one of setting, kind"),
        ({"low": "a"}, "a number"),
        ({"low": True}, "a number"),
        ({"choices": 3}, "a list"),
        ({"when": ["loss"]}, "a dict"),
        ({"log": "yes"}, "true or false"),
        ({"kind": "flaot"}, "float, int, categorical"),
        ("lr", "a group of"),
    ],
)
def test_a_parameter_from_yaml_is_typed(given: object, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        TuneConfig(search={"faulty": given})


def test_whole_numbers_in_yaml_are_numbers() -> None:
    assert TuneConfig(search={"lr": {"low": 0, "high": 1}}).search["lr"] == SearchParam(
        low=0.0, high=1.0
    )
