from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from leakdet.config import OptimizerConfig, TrainConfig
from leakdet.core.errors import InputError, SettingsError
from leakdet.detection.networks import Network, make_network
from leakdet.training import log_names
from leakdet.training.checkpoints import (
    AtomicCheckpointIO,
    copy_to,
    inherit_optimizer,
    initialise,
    read_checkpoint,
    stored_score,
    transfer,
)
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.optimizer import make_optimizer

WHOLE = {"state_dict": {"w": torch.ones(3)}, "loops": {}}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    AtomicCheckpointIO().save_checkpoint(WHOLE, tmp_path / "new" / "a.ckpt")
    found = AtomicCheckpointIO().load_checkpoint(tmp_path / "new" / "a.ckpt")
    assert torch.equal(found["state_dict"]["w"], torch.ones(3))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.ckpt"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    AtomicCheckpointIO().save_checkpoint(WHOLE, path)
    with pytest.raises(Exception, match="pickle"):
        AtomicCheckpointIO().save_checkpoint({"unpicklable": lambda: None}, path)
    assert torch.equal(read_checkpoint(path)["state_dict"]["w"], torch.ones(3))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("damage", ["missing", "cut", "text", "other"])
def test_what_is_no_checkpoint_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.ckpt"
    if damage == "cut":
        torch.save(WHOLE, path)
        path.write_bytes(path.read_bytes()[:-200])
    elif damage == "text":
        path.write_text("no")
    elif damage == "other":
        torch.save({"a": 1}, path)
    with pytest.raises(InputError, match=r"a\.ckpt"):
        read_checkpoint(path)


MONITORS = (log_names.VAL_RANK, log_names.VAL_LOSS, None)


def checkpoint(rank: float | None, loss: float | None) -> dict[str, Any]:
    """What matters of a checkpoint: the states of the three callbacks that write it."""
    scores = {log_names.VAL_RANK: rank, log_names.VAL_LOSS: loss, None: None}
    states = {
        f"ModelCheckpoint{{{monitor}}}": {
            "monitor": monitor,
            "dirpath": "/elsewhere",
            "best_model_path": "/elsewhere/x.ckpt",
            "best_model_score": None if scores[monitor] is None else torch.tensor(scores[monitor]),
        }
        for monitor in MONITORS
    }
    other = {"F1Stop": {"monitor": log_names.VAL_RANK, "wait_count": 3}}
    return {"state_dict": {"w": torch.ones(1)}, "loops": {}, "callbacks": other | states}


def write(folder: Path, **checkpoints: dict[str, Any]) -> Path:
    folder.mkdir(parents=True)
    for name, content in checkpoints.items():
        torch.save(content, folder / f"{name}.ckpt")
    return folder / "last.ckpt"


def state_of(path: Path, monitor: str | None) -> dict[str, Any]:
    state: dict[str, Any] = read_checkpoint(path)["callbacks"][f"ModelCheckpoint{{{monitor}}}"]
    return state


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose best files were written after the last checkpoint: they have better scores."""
    last = write(
        tmp_path / "old" / "checkpoints",
        last=checkpoint(0.5, 0.7),
        best_f1=checkpoint(0.8, 0.7),
        best_loss=checkpoint(0.5, 0.6),
    )
    (tmp_path / "old" / "warnings.txt").write_text("epoch 1, gpu: idle\n")
    (tmp_path / "old" / "logs").mkdir()
    (tmp_path / "old" / "logs" / "metrics.csv").write_text("step\n0\n")
    return last


def test_the_files_of_the_run_come_along(run: Path, tmp_path: Path) -> None:
    last = transfer(run, tmp_path / "new" / "checkpoints")
    assert last == tmp_path / "new" / "checkpoints" / "last.ckpt"
    files = [path for path in (tmp_path / "new").rglob("*") if path.is_file()]
    assert sorted(path.name for path in files) == [
        "best_f1.ckpt",
        "best_loss.ckpt",
        "last.ckpt",
        "metrics.csv",
        "warnings.txt",
    ]
    assert state_of(last, None)["best_model_path"] == str(last)


@pytest.mark.parametrize("place", ["old", "new"])
def test_a_best_that_is_newer_than_last_keeps_its_own_score(
    place: str, run: Path, tmp_path: Path
) -> None:
    """In its own folder and in another one."""
    folder = tmp_path / place / "checkpoints"
    last = transfer(run, folder)
    for name, monitor, score in (
        ("best_f1", log_names.VAL_RANK, 0.8),
        ("best_loss", log_names.VAL_LOSS, 0.6),
    ):
        state = state_of(last, monitor)
        assert float(state["best_model_score"]) == pytest.approx(score)
        assert state["best_model_path"] == str(folder / f"{name}.ckpt")
        assert state["dirpath"] == str(folder)
        assert list(state["best_k_models"]) == [state["kth_best_model_path"]]


def test_an_older_best_file_does_not_lower_the_score(tmp_path: Path) -> None:
    last = write(tmp_path / "run", last=checkpoint(0.9, 0.2), best_f1=checkpoint(0.4, 0.3))
    state = state_of(transfer(last, tmp_path / "run"), log_names.VAL_RANK)
    assert float(state["best_model_score"]) == pytest.approx(0.9)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_best_without_its_file_is_forgotten(damaged: bool, tmp_path: Path) -> None:
    last = write(tmp_path / "run", last=checkpoint(0.9, 0.2))
    if damaged:
        (tmp_path / "run" / "best_f1.ckpt").write_bytes(b"half")
    last = transfer(last, tmp_path / "run")
    assert state_of(last, log_names.VAL_RANK)["best_model_score"] is None
    assert float(state_of(last, log_names.VAL_RANK)["kth_value"]) == float("-inf")
    assert float(state_of(last, log_names.VAL_LOSS)["kth_value"]) == float("inf")


def test_the_score_of_a_file_is_its_own(run: Path) -> None:
    score = stored_score(run.with_name("best_loss.ckpt"), log_names.BEST_LOSS)
    assert score is not None
    assert float(score) == pytest.approx(0.6)
    assert stored_score(run.with_name("none.ckpt"), log_names.BEST_LOSS) is None


def test_a_file_is_not_copied_onto_itself(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert copy_to(tmp_path / "a", tmp_path / "a").read_text() == "x"
    assert copy_to(tmp_path / "b" / "c", tmp_path / "a").read_text() == "x"
    assert not copy_to(tmp_path / "d", tmp_path / "missing").exists()


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
    with pytest.raises(InputError, match=r"differ.*linear"):
        initialise(network_of(other, data), data.with_settings(other), source)
    wide = configured("network.conv_channels=32")
    with pytest.raises(InputError, match=r"width\. .*network\.conv_channels=8\.$"):
        initialise(network_of(wide, data), data.with_settings(wide), source)
    assert data.splits.train.signal is not None
    data.splits.train.signal.fmin_hz = 50.0
    with pytest.raises(InputError, match=r"another signal.*fmin_hz: 300\.0 / 50\.0"):
        initialise(network_of(config, data), data.with_settings(config), source)
    data.splits.train.signal.fmin_hz = 300.0
    model = tmp_path / "model.safetensors"
    from leakdet.storage.model_file import load_mel_detector, save_model

    best = load_mel_detector(source)
    save_model(model, best.network.state_dict(), best.card)
    keeping = configured("init_reset=[schedule,best_score]")
    with pytest.raises(SettingsError, match=r"weights only; .*optimizer"):
        initialise(network_of(keeping, data), data.with_settings(keeping), model)


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
    data, last = opened(config), tmp_path / "checkpoints" / "last.ckpt"
    with pytest.raises(
        InputError, match=rf"its network\.{name} is {old}, that of this run {value}"
    ):
        initialise(network_of(config, data), data.with_settings(config), last)


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
