import pytest

from leakdet.config import CallbacksConfig
from leakdet.errors import SettingsError


@pytest.mark.parametrize("name", ["nets", "a.b:", ":Mine", "a b:Mine", "a:Mine()", ".a:Mine"])
def test_a_name_of_another_form_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=r"callbacks\.extra=.* must be package\.module:Class"):
        CallbacksConfig(extra=[name])


def test_a_dotted_module_and_its_class_are_taken() -> None:
    assert CallbacksConfig(extra=["my_package.callbacks:Mine"]).early_stopping
