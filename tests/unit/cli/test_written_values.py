"""Values as people type them become what Hydra reads, whatever letters they hold."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from leakdet.cli.composition import compose
from leakdet.cli.setting_names import Setting
from leakdet.cli.written_values import text_for_hydra, value_for_hydra
from leakdet.errors import SettingsError

NAMES = Setting("labels.leak", list, [], "", "", names=True)
MAPPING = Setting("labels.rename", dict, None, "", "", names=True)
COLUMNS = Setting("split.group_by", list, [], "", "")


def read(setting: Setting, value: str) -> object:
    written = value_for_hydra(value, setting, several=False)
    return OverridesParser.create().parse_override(f"x={written}").value()


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("leak", ["leak"]),
        ("a,b c", ["a", "b c"]),
        ("[gasket-leak, orifice-leak]", ["gasket-leak", "orifice-leak"]),
        ("[漏水,Leck (groß),a=b,O'Leak]", ["漏水", "Leck (groß)", "a=b", "O'Leak"]),
        ("['a, b',\"c]\"]", ["a, b", "c]"]),
        ("'a, b'", ["a, b"]),
        ("[]", []),
        ("null", None),
        ("1e5", ["1e5"]),
    ],
)
def test_one_name_or_a_list_of_names(typed: str, names: list[str] | None) -> None:
    found = read(NAMES, typed)
    assert (None if found is None else [str(name) for name in found]) == names


def test_numbers_in_a_list_stay_numbers() -> None:
    assert read(Setting("split.ratios", list, [], "", ""), "[0.7,0.2,0.1]") == [0.7, 0.2, 0.1]
    assert [str(name) for name in read(COLUMNS, "[Straße]")] == ["Straße"]


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("{old: new}", {"old": "new"}),
        ("{漏水:leak, O'Leak: leak}", {"漏水": "leak", "O'Leak": "leak"}),
        ("{'a: b': \"c, d\", Leck (groß): a=b}", {"a: b": "c, d", "Leck (groß)": "a=b"}),
        ("{}", {}),
        ("null", {}),
    ],
)
def test_a_mapping_of_names(typed: str, names: dict[str, str]) -> None:
    assert compose("train", [f"labels.rename={typed}"]).labels.rename == names


@pytest.mark.parametrize("typed", ["old", "{old}", "{old: new}x", "{a: b, c}", "[a, b]"])
def test_what_is_no_mapping_is_refused(typed: str) -> None:
    with pytest.raises(SettingsError, match=r"write it as labels\.rename=\{old: new, other: new\}"):
        value_for_hydra(typed, MAPPING, several=False)


def test_a_sweep_and_what_is_written_out_pass() -> None:
    assert text_for_hydra("a,b", several=True) == "a,b"
    assert text_for_hydra("a b", several=True) == "'a b'"
    assert value_for_hydra("${other}", NAMES, several=False) == "${other}"
