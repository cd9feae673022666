import pytest

from leakdet.config import SearchParam, TrainConfig, TuneConfig, TuneSettings
from leakdet.core.errors import SettingsError


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"study": "a/b"}, r"tune\.study='a/b' .*folder"),
        ({"study": " "}, r"tune\.study=' '"),
        ({"study": ".."}, r"tune\.study='\.\.'"),
        ({"n_trials": 0}, r"tune\.n_trials=0"),
        ({"percentile": 100.0}, r"tune\.percentile=100"),
        ({"pruner": "wilcoxon", "repeats": 2, "folds": 2}, "of at least 5"),
    ],
)
def test_a_bad_value_names_the_setting_and_what_is_allowed(changes, message: str):
    with pytest.raises(SettingsError, match=message):
        TuneSettings(**changes)


@pytest.mark.parametrize(
    ("objective", "direction", "maximises"),
    [
        ("recording_f1", "auto", True),
        ("loss", "auto", False),
        ("loss", "maximize", True),
        ("recording_auroc", "minimize", False),
    ],
)
def test_auto_maximises_all_but_the_loss(objective: str, direction: str, maximises: bool):
    assert TuneSettings(objective=objective, direction=direction).maximises is maximises


def test_parameters_are_typed_and_stay_what_they_are():
    param = SearchParam(kind="categorical", choices=[1])
    tune = TuneConfig(search={"lr": {"setting": "optimizer.lr", "low": 1, "high": 2}, "own": param})
    assert tune.search["lr"] == SearchParam("optimizer.lr", low=1.0, high=2.0)
    assert isinstance(tune.search["lr"].low, float)
    assert tune.search["own"] is param


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("lr", r"search\.x='lr' .*a group of setting, kind"),
        ({"lowest": 1}, r"search\.x='lowest' .*one of setting, kind"),
        ({"low": True}, r"search\.x\.low=True .*a number"),
        ({"log": 1}, r"search\.x\.log=1 .*true or false"),
        ({"choices": 3}, r"search\.x\.choices=3 .*a list"),
        ({"when": ["loss"]}, r"search\.x\.when=\['loss'\] .*a dict"),
        ({"setting": 3}, r"search\.x\.setting=3 .*a word"),
        ({"kind": "word"}, "one of float, int, categorical"),
    ],
)
def test_a_bad_parameter_is_refused(given: object, message: str):
    with pytest.raises(SettingsError, match=message):
        TuneConfig(search={"x": given})


def test_the_training_of_a_study_has_no_study():
    training = TuneConfig(seed=3).training()
    assert type(training) is TrainConfig
    assert training.seed == 3
