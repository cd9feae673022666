"""Settings that contradict each other are refused by name."""

from collections.abc import Callable

import pytest

from leakdet.config import TrainConfig
from leakdet.core.errors import SettingsError
from leakdet.training.conflicts import check_settings

Configured = Callable[..., TrainConfig]


@pytest.mark.parametrize("accelerator", ["gpu", "cuda"])
def test_a_gpu_that_torch_does_not_find_is_refused(
    accelerator: str, configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    config = configured(f"trainer.accelerator={accelerator}")
    with pytest.raises(SettingsError, match=r"torch finds no GPU .*trainer=cpu"):
        check_settings(config)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    check_settings(config)


def test_ranges_for_nsight_without_a_gpu_are_refused(
    configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SettingsError, match=r"profile=nvtx .*CUDA.* profile=phases"):
        check_settings(configured("profile=nvtx"))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    check_settings(configured("profile=nvtx"))


def test_several_balances_at_once_are_refused_unless_asked_for(configured: Configured) -> None:
    both = ("loss=focal", "data.sampling=balanced")
    with pytest.raises(SettingsError, match=r"each shift the class balance.*Keep one of them"):
        check_settings(configured(*both))
    check_settings(configured(*both, "loss.allow_several_balances=true"))
