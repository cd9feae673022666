from pathlib import Path

import pytest

from leakdet.building.signal_like import signal_like, with_like
from leakdet.config import BuildConfig, SignalConfig
from leakdet.errors import InputError, SettingsError
from leakdet.storage.model_card import read_card


def test_the_signal_is_that_of_the_model_its_run_or_the_store(trained) -> None:
    signal = SignalConfig.from_dict(read_card(trained.model)["signal"], "")
    for path in (trained.model, trained.folder, trained.store):
        assert signal_like(path) == signal
        assert with_like(BuildConfig("in", "out", like=str(path))).signal == signal
    assert with_like(BuildConfig("in", "out")).signal == SignalConfig()


def test_another_signal_beside_it_is_refused(trained) -> None:
    other = BuildConfig("in", "out", SignalConfig(n_mels=17), like=str(trained.store))
    with pytest.raises(SettingsError, match=r"n_mels: \d+ / 17.*Leave out signal=, or like="):
        with_like(other)


def test_what_tells_no_signal_is_refused(tmp_path: Path, stores) -> None:
    with pytest.raises(InputError, match="no such model or store"):
        signal_like(tmp_path / "typo")
    with pytest.raises(InputError, match="there is no model in this folder"):
        signal_like(tmp_path)
    (tmp_path / "last.ckpt").write_text("")
    with pytest.raises(InputError, match=r"takes a \.safetensors file"):
        signal_like(tmp_path / "last.ckpt")
    stores.ailh_splits(tmp_path, {})
    with pytest.raises(InputError, match="does not say by which signal"):
        signal_like(tmp_path)
