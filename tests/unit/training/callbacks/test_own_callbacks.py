import pytest
from lightning.pytorch.callbacks import Callback, DeviceStatsMonitor, EarlyStopping

from leakdet.errors import SettingsError
from leakdet.training.callbacks.own_callbacks import own_callbacks, own_classes


def test_each_name_gives_an_instance_of_its_class() -> None:
    name = "lightning.pytorch.callbacks:DeviceStatsMonitor"
    assert own_classes([name]) == [DeviceStatsMonitor]
    first, second = own_callbacks([name, name])
    assert isinstance(first, DeviceStatsMonitor)
    assert first is not second
    assert own_callbacks([]) == []


@pytest.mark.parametrize("name", ["pathlib:Path", "math:pi"])
def test_what_is_no_callback_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"callbacks\.extra: {name} is no callback"):
        own_classes([name])


def test_a_class_that_needs_arguments_is_refused_with_the_way_out() -> None:
    assert issubclass(EarlyStopping, Callback)
    with pytest.raises(SettingsError, match=r"without arguments.*monitor.*Give its arguments"):
        own_callbacks(["lightning.pytorch.callbacks:EarlyStopping"])
