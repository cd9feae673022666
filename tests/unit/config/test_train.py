import inspect
import typing
from typing import Any

import lightning.pytorch as pl
import pytest
from lightning.fabric.plugins.precision import precision

from leakdet.cli.compose import compose
from leakdet.config import (
    AugmentConfig,
    AveragingConfig,
    CallbacksConfig,
    DataConfig,
    OptimizerConfig,
    StopConfig,
    TrainConfig,
    TrainerFlags,
)
from leakdet.config.train import PRECISIONS
from leakdet.core.errors import SettingsError


def test_one_store_and_several_contradict() -> None:
    with pytest.raises(SettingsError, match=r"data\.stores=.*beside data\.store"):
        DataConfig(store="a", stores=["b"])


def test_without_any_store_it_is_the_demo() -> None:
    assert DataConfig().is_demo
    assert not DataConfig(store="a").is_demo
    assert not DataConfig(stores=["b"]).is_demo


@pytest.mark.parametrize("name", ["nets", "a.b:", ":Mine", "a b:Mine", "a:Mine()", ".a:Mine"])
def test_a_name_of_another_form_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=r"callbacks\.extra=.* package\.module:Class"):
        CallbacksConfig(extra=[name])


def test_a_dotted_module_and_its_class_are_taken() -> None:
    assert CallbacksConfig(extra=["my_package.callbacks:Mine"]).early_stopping


def test_what_is_not_given_is_lightnings_default() -> None:
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    flags = TrainerFlags.of({"max_epochs": None, "devices": None})
    assert flags == TrainerFlags()
    assert flags.max_epochs == 1000  # set by Lightning when fitting begins
    assert flags.max_steps == trainer.max_steps
    assert flags.check_val_every_n_epoch == trainer.check_val_every_n_epoch
    assert flags.val_check_interval == trainer.val_check_interval
    assert flags.limit_val_batches == trainer.limit_val_batches
    assert flags.accumulate_grad_batches == trainer.accumulate_grad_batches
    assert flags.gradient_clip_val == trainer.gradient_clip_val
    assert flags.enable_progress_bar == (trainer.progress_bar_callback is not None)
    defaults = inspect.signature(pl.Trainer).parameters
    for name in ("accelerator", "devices", "strategy", "num_nodes", "overfit_batches"):
        assert getattr(flags, name) == defaults[name].default, name


def test_what_is_given_is_read_and_other_flags_are_not() -> None:
    flags = TrainerFlags.of({"devices": [1, 3], "limit_val_batches": 1, "precision": "16-mixed"})
    assert flags.devices == [1, 3]
    assert isinstance(flags.limit_val_batches, int)


@pytest.mark.parametrize(
    ("trainer", "told"),
    [
        ({}, "3 epochs"),
        ({"check_val_every_n_epoch": 10}, "30 epochs"),
        ({"val_check_interval": 0.25}, "0.75 epochs"),
        ({"val_check_interval": 100}, "3 validation checks"),
    ],
)
def test_checks_are_told_in_epochs_where_epochs_count(trainer: dict[str, Any], told: str) -> None:
    assert TrainerFlags.of(trainer).span(3) == told


@pytest.mark.parametrize("name", ["cpu", "gpu", "ddp", "debug"])
def test_all_that_ships_is_allowed(name: str) -> None:
    given = compose("train", [f"trainer={name}"]).trainer
    assert TrainerFlags.of(given).devices == (2 if name == "ddp" else 1)


@pytest.mark.parametrize("devices", ["auto", "-1", -1, 1, "2", [0], [0, 3], "0,", "1,2"])
def test_devices_are_a_number_a_list_or_auto(devices: Any) -> None:
    assert TrainerFlags.of({"devices": devices}).devices == devices


@pytest.mark.parametrize(
    ("alone", "trainer"),
    [
        (True, {"devices": 1}),
        (True, {"devices": "1"}),
        (True, {"devices": [3]}),
        (True, {"devices": "3,"}),
        (True, {"accelerator": "cpu"}),
        (False, {"devices": 2}),
        (False, {"devices": "0,1"}),
        (False, {"devices": "auto"}),
        (False, {"devices": -1}),
        (False, {"devices": 1, "num_nodes": 2}),
    ],
)
def test_a_training_on_one_device_is_one_process(alone: bool, trainer: dict[str, Any]) -> None:
    assert TrainerFlags.of(trainer).one_device == alone


def test_precisions_are_those_of_lightning() -> None:
    kinds = (precision._PRECISION_INPUT_STR, precision._PRECISION_INPUT_STR_ALIAS)
    assert set(PRECISIONS) == {name for kind in kinds for name in typing.get_args(kind)}


def test_one_epoch_is_singular() -> None:
    assert TrainerFlags().span(1) == "1 epoch"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_epochs": "abc"}, "trainer.max_epochs='abc' .*whole number"),
        ({"num_nodes": 1.5}, "trainer.num_nodes=1.5 "),
        ({"limit_val_batches": "all"}, "trainer.limit_val_batches='all' .*number of batches"),
        ({"limit_train_batches": 1.5}, "trainer.limit_train_batches=1.5 .*0.0 to 1"),
        ({"max_epochs": -3}, "trainer.max_epochs=-3 .* -1 for no limit"),
        ({"max_steps": 0}, "trainer.max_steps=0 "),
        ({"precision": "foo"}, "trainer.precision='foo' .* one of 32-true, bf16-mixed"),
        ({"devices": 0}, "trainer.devices=0 .*list of device numbers"),
        ({"devices": []}, "trainer.devices=.. "),
        ({"devices": "two"}, "trainer.devices='two' "),
        ({"gradient_clip_val": -1.0}, "trainer.gradient_clip_val=-1.0 .* at least 0"),
        ({"accumulate_grad_batches": 0}, "trainer.accumulate_grad_batches=0 .* at least 1"),
        ({"benchmark": 2}, "trainer.benchmark=2 .* true or false"),
        ({"check_val_every_n_epoch": True}, "trainer.check_val_every_n_epoch=True "),
        ({"accelerator": "gpuu"}, "trainer.accelerator='gpuu' .* one of auto, cpu, gpu"),
    ],
)
def test_a_value_of_another_type_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        TrainerFlags.of(given)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (DataConfig, {"batch_size": -1}, r"data\.batch_size=-1"),
        (DataConfig, {"residency": "gpu"}, "one of auto, device, ram, stream"),
        (OptimizerConfig, {"lr": float("inf")}, r"optimizer\.lr=inf"),
        (AugmentConfig, {"mask_mels": -1}, r"augment\.mask_mels=-1"),
        (AugmentConfig, {"interference_db": [0.0, -20.0]}, "the lower one first"),
        (AveragingConfig, {"ema_decay": 1.0}, r"averaging\.ema_decay=1\.0"),
        (OptimizerConfig, {"name": "sgd"}, "one of adamw, adam"),
        (StopConfig, {"name": "never"}, "one of auto, val, fixed"),
        (StopConfig, {"passes": 0}, r"stop\.passes=0"),
        (TrainConfig, {"patience": 0}, "^patience=0"),
        (TrainConfig, {"init_reset": ["weights"]}, "one of optimizer, schedule, best_score"),
        (TrainConfig, {"resume": "auto", "init_from": "a"}, "null together with resume"),
    ],
)
def test_a_bad_value_names_the_setting_and_what_is_allowed(kind, changes, message: str):
    with pytest.raises(SettingsError, match=message):
        kind(**changes)
