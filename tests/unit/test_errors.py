import pytest

from leakdet.errors import InputError, LeakdetError, SettingsError, first_few


@pytest.mark.parametrize(
    ("count", "text"), [(0, ""), (1, "a"), (3, "a, b, c"), (4, "a, b, c and 1 more")]
)
def test_long_lists_are_cut_with_their_length(count: int, text: str):
    assert first_few(["a", "b", "c", "d"][:count], most=3) == text


def test_both_kinds_are_caught_as_one():
    assert issubclass(SettingsError, LeakdetError)
    assert issubclass(InputError, LeakdetError)
    assert not issubclass(InputError, SettingsError)
