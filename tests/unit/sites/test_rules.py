"""The parameters of the rule."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from leakdet.cli.compose import read_rules
from leakdet.core.errors import LeakdetError, SettingsError
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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("alarms: 2\nalarms: 3\n", "line 2: .*duplicate key alarms"),
        ("alarms: 5\nof_nights: 3\n", "alarms=5 .*of_nights=3"),
        ("prior: 5\n", "prior=5"),
        ("path,site\n" + "a.wav,A\n" * 99, "no table of names"),
    ],
)
def test_a_wrong_file_of_rules_is_named_and_not_printed(
    tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "rules.yaml").write_text(text)
    with pytest.raises(LeakdetError, match=rf"^{tmp_path}/rules\.yaml: .*{reason}") as raised:
        read_rules(tmp_path / "rules.yaml", WorklistRules)
    assert len(str(raised.value)) < 250


def test_impossible_parameters_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"alarms=5 .*of_nights"):
        WorklistRules(alarms=5)
    with pytest.raises(SettingsError, match=r"prior=1\.5"):
        WorklistRules(prior=1.5)


def test_a_run_ends_where_a_suspicion_has_become_impossible() -> None:
    assert WorklistRules().gap == 2
    assert WorklistRules(alarms=1, of_nights=1).gap == 1
