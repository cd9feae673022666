"""The parameters of the rule."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from leakdet.cli.compose import read_rules
from leakdet.core.errors import SettingsError
from leakdet.sites.rules import WorklistRules
from leakdet.worklist import OPTIONS


def test_every_parameter_has_its_sentence() -> None:
    for field in fields(WorklistRules):
        assert field.metadata["meaning"].endswith("."), field.name


def test_the_page_of_the_rule_has_every_parameter_with_its_default(tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "worklist-rule.md"
    block = re.findall(r"```text\n(# rules.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)[0]
    (tmp_path / "rules.yaml").write_text(block)
    rules = read_rules(tmp_path / "rules.yaml", WorklistRules)
    assert WorklistRules(**rules) == WorklistRules()
    assert {*rules, *OPTIONS} == {field.name for field in fields(WorklistRules)}


def test_impossible_parameters_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"alarms=5 .*of_nights"):
        WorklistRules(alarms=5)
    with pytest.raises(SettingsError, match=r"prior=1\.5"):
        WorklistRules(prior=1.5)


def test_a_run_ends_where_a_suspicion_has_become_impossible() -> None:
    assert WorklistRules().gap == 2
    assert WorklistRules(alarms=1, of_nights=1).gap == 1
