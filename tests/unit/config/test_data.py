import pytest

from leakdet.config import DataConfig
from leakdet.errors import SettingsError


def test_one_store_and_several_contradict() -> None:
    with pytest.raises(SettingsError, match=r"data\.stores=.*none beside data\.store"):
        DataConfig(store="a", stores=["b"])


def test_without_any_store_it_is_the_demo() -> None:
    assert DataConfig().is_demo
    assert not DataConfig(store="a").is_demo
    assert not DataConfig(stores=["b"]).is_demo
