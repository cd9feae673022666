"""The parameters of the rule."""

from dataclasses import fields

import pytest

from leakdet.core.errors import SettingsError
from leakdet.sites.rules import WorklistRules


def test_every_parameter_has_its_sentence() -> None:
    for field in fields(WorklistRules):
        assert field.metadata["meaning"].endswith("."), field.name


def test_impossible_parameters_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"alarms=5 .*of_nights"):
        WorklistRules(alarms=5)
    with pytest.raises(SettingsError, match=r"prior=1\.5"):
        WorklistRules(prior=1.5)


def test_a_run_ends_where_a_suspicion_has_become_impossible() -> None:
    assert WorklistRules().gap == 2
    assert WorklistRules(alarms=1, of_nights=1).gap == 1
