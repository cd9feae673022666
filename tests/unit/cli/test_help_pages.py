"""Help lists what exists, in lines that fit a terminal."""

import pytest

from leakdet.cli.composition import default_values
from leakdet.cli.door_settings import DOORS, known_settings
from leakdet.cli.help_pages import EXAMPLES, MOST_USED, plain, settings_text
from leakdet.cli.hydra_door import door_help


@pytest.mark.parametrize("door", DOORS)
def test_help_names_the_ten_settings_with_the_shells_defaults(door: str) -> None:
    text = door_help(door)
    values = default_values(door)
    assert len(MOST_USED[door]) == 10
    for name in MOST_USED[door]:
        assert f"  {name}={plain(values[name])}\n" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert f"leakdet settings {door}" in text
    assert "exit codes: 0 done" in text


@pytest.mark.parametrize("door", DOORS)
def test_every_setting_is_listed_in_lines_that_fit(door: str) -> None:
    text = settings_text(known_settings(door).settings.values(), default_values(door))
    assert all(len(line) <= 80 for line in text.splitlines())
    if "trainer=" in text:
        assert "\n  trainer={accelerator: cpu, devices: 1, " in text
        assert "max_epochs:\n" not in text


@pytest.mark.parametrize("door", DOORS)
def test_examples_are_commands_that_compose(door: str) -> None:
    from leakdet.cli.composition import as_hydra_reads

    for example in EXAMPLES[door]:
        program, verb, *arguments = example.split()
        assert (program, verb) == ("leakdet", door)
        assert as_hydra_reads(door, arguments)


def test_settings_are_found_by_a_word() -> None:
    settings = known_settings("train").settings.values()
    text = settings_text(settings, {}, "EARLY stop")
    assert text.startswith("No setting has 'EARLY stop'")
    text = settings_text(settings, {"augment.mask_mels": 3}, "specaugment")
    assert text.startswith("  augment.mask_mels=3\n")
    assert "optimizer.lr" not in text
    assert "Did you mean optimizer.lr" in settings_text(settings, {}, "optimizr.lr")


@pytest.mark.parametrize(
    ("value", "typed"),
    [
        (None, "null"),
        (True, "true"),
        ([-20.0, 0.0], "[-20.0,0.0]"),
        ("???", "(required)"),
        (3, "3"),
    ],
)
def test_a_default_is_written_as_a_person_types_it(value: object, typed: str) -> None:
    assert plain(value) == typed
