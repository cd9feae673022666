"""A new training that begins with the weights of an old one: what is kept, what is refused."""

from collections.abc import Callable
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch

from leakdet.config import OptimizerConfig, TrainConfig
from leakdet.detection.networks import Network, make_network
from leakdet.errors import InputError, SettingsError
from leakdet.training import log_names
from leakdet.training.checkpoint_io import read_checkpoint
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.optimizer import make_optimizer
from leakdet.training.warm_start import inherit_optimizer, initialise

Fitted = Callable[..., pl.Trainer]
Opened = Callable[[TrainConfig], LeakDataModule]
STILL = ("trainer.max_epochs=1", "optimizer.lr=0", "optimizer.min_lr=0")


def network_of(config: TrainConfig, data: LeakDataModule) -> Network:
    return make_network(config.network, data.sample_shape, len(data.labels.names))


@pytest.fixture
def source(fitted: Fitted, tmp_path: Path) -> Path:
    fitted(tmp_path / "old", "trainer.max_epochs=2")
    return tmp_path / "old" / "checkpoints" / "last.ckpt"


def last(folder: Path) -> dict[str, object]:
    return read_checkpoint(folder / "checkpoints" / "last.ckpt")


def test_weights_and_input_statistics_are_those_of_the_source(
    source: Path, fitted: Fitted, tmp_path: Path
) -> None:
    fitted(tmp_path / "new", *STILL, f"init_from={source}")
    there, here = read_checkpoint(source)["state_dict"], last(tmp_path / "new")["state_dict"]
    assert all(torch.equal(there[name], here[name]) for name in there)  # type: ignore[index]


def test_what_is_not_reset_is_inherited(source: Path, fitted: Fitted, tmp_path: Path) -> None:
    old = read_checkpoint(source)
    fitted(tmp_path / "anew", *STILL, f"init_from={source}")
    fitted(tmp_path / "kept", *STILL, f"init_from={source}", "init_reset=[]")
    anew, kept = (
        read_checkpoint(tmp_path / name / "checkpoints" / "last.ckpt") for name in ("anew", "kept")
    )
    steps = {
        name: float(found["optimizer_states"][0]["state"][0]["step"])
        for name, found in (("old", old), ("anew", anew), ("kept", kept))
    }
    assert steps["kept"] == steps["old"] + steps["anew"]
    assert kept["lr_schedulers"][0]["last_epoch"] > anew["lr_schedulers"][0]["last_epoch"]
    best = {
        name: max(
            float(state["best_model_score"])
            for state in found["callbacks"].values()
            if state.get("monitor") == log_names.VAL_RANK and "best_model_score" in state
        )
        for name, found in (("old", old), ("kept", kept))
    }
    assert best["kept"] >= best["old"]


def test_another_signal_network_or_kind_of_file_is_refused(
    source: Path, configured: Callable[..., TrainConfig], opened: Opened, tmp_path: Path
) -> None:
    config = configured()
    data = opened(config)
    other = configured("network=linear")
    with pytest.raises(InputError, match=r"window shape, unit, classes or network differ.*linear"):
        initialise(network_of(other, data), data, source, other)
    wide = configured("network.conv_channels=32")
    with pytest.raises(InputError, match=r"of another width. Give network\.conv_channels=8\.$"):
        initialise(network_of(wide, data), data, source, wide)
    assert data.splits.train.signal is not None
    data.splits.train.signal.fmin_hz = 50.0
    with pytest.raises(InputError, match=r"another signal.*fmin_hz: 300\.0 / 50\.0"):
        initialise(network_of(config, data), data, source, config)
    data.splits.train.signal.fmin_hz = 300.0
    model = tmp_path / "model.safetensors"
    from leakdet.storage.model_file import load_mel_detector, save_model

    best = load_mel_detector(source)
    save_model(model, best.network.state_dict(), best.card)
    keeping = configured("init_reset=[schedule,best_score]")
    with pytest.raises(SettingsError, match=r"weights only; to keep optimizer"):
        initialise(network_of(keeping, data), data, model, keeping)


@pytest.mark.parametrize("setting", ["input_norm=none", "time_pool=2"])
def test_weights_that_would_meet_another_input_are_refused(
    setting: str,
    configured: Callable[..., TrainConfig],
    fitted: Fitted,
    opened: Opened,
    tmp_path: Path,
) -> None:
    """Neither changes a shape of the linear network: its weights would load."""
    fitted(
        tmp_path, *STILL, "network=linear", "network.time_pool=4", "network.input_norm=level_free"
    )
    config = configured("network=linear", "network.time_pool=4", f"network.{setting}")
    name, value = setting.split("=")
    old = {"input_norm": "level_free", "time_pool": 4}[name]
    data = opened(config)
    with pytest.raises(
        InputError, match=rf"its network\.{name} is {old}, that of this run {value}"
    ):
        initialise(network_of(config, data), data, tmp_path / "checkpoints" / "last.ckpt", config)


def test_only_the_moments_of_an_optimiser_are_inherited() -> None:
    network = torch.nn.Linear(3, 2)
    old = make_optimizer(network, OptimizerConfig(lr=0.1, weight_decay=0.5))
    network(torch.ones(1, 3)).sum().backward()
    old.step()
    new = make_optimizer(network, OptimizerConfig(lr=0.01, weight_decay=0.2))
    inherit_optimizer(new, old.state_dict(), 0.01)
    assert [group["weight_decay"] for group in new.param_groups] == [0.2, 0.0]
    assert [group["lr"] for group in new.param_groups] == [0.01, 0.01]
    assert torch.equal(new.state[network.weight]["exp_avg"], old.state[network.weight]["exp_avg"])


def test_a_best_score_of_another_selection_is_not_kept(fitted: Fitted, tmp_path: Path) -> None:
    fitted(tmp_path / "old", "trainer.max_epochs=1")
    source = tmp_path / "old" / "checkpoints" / "last.ckpt"
    with pytest.raises(SettingsError, match=r"select=f1, which select=auroc cannot be compared"):
        fitted(tmp_path / "new", "select=auroc", f"init_from={source}", "init_reset=[]")
