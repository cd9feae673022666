"""Every setting is listed once, with its meaning, and misspelt names find the meant one."""

import inspect
from dataclasses import asdict

import lightning.pytorch as pl
import pytest

from leakdet.cli.door_settings import DOORS
from leakdet.cli.setting_names import (
    HABITS,
    LIGHTNING_ARGUMENTS,
    catalogue,
    nearest,
    trainer_flag,
)
from leakdet.config import BuildConfig, CrossvalConfig, TrainConfig, TuneConfig

NAMES = [setting.name for setting in catalogue(TrainConfig)]


def _leaves(values: dict, prefix: str = "") -> list[str]:
    names = []
    for key, value in values.items():
        inside = isinstance(value, dict) and value
        names += _leaves(value, f"{prefix}{key}.") if inside else [prefix + key]
    return names


def test_the_catalogue_has_every_field_and_its_default() -> None:
    assert _leaves(asdict(TrainConfig())) == NAMES
    defaults = {setting.name: setting.default for setting in catalogue(TrainConfig)}
    assert defaults["optimizer.lr"] == TrainConfig().optimizer.lr
    assert defaults["init_reset"] == TrainConfig().init_reset


@pytest.mark.parametrize("schema", [BuildConfig, TrainConfig, TuneConfig, CrossvalConfig])
def test_every_setting_has_a_meaning(schema: type) -> None:
    assert [setting.name for setting in catalogue(schema) if not setting.meaning] == []


def test_types_are_plain_and_open_settings_are_known() -> None:
    settings = {setting.name: setting for setting in catalogue(TrainConfig)}
    assert settings["data.store"].kind is str
    assert settings["augment.interference_db"].kind is list
    assert [name for name, setting in settings.items() if setting.open] == [
        "network.extra",
        "loss.extra",
        "trainer",
        "logger",
    ]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("optimizr.lr", "optimizer.lr"),
        ("lr", "optimizer.lr"),
        ("learning_rate", "optimizer.lr"),
        ("optimizer.learning_rate", "optimizer.lr"),
        ("data.batchsize", "data.batch_size"),
        ("batch_size", "data.batch_size"),
        ("paitence", "patience"),
        ("drop_out", "network.dropout"),
    ],
)
def test_the_nearest_name_is_the_meant_one(typed: str, meant: str) -> None:
    assert nearest(typed, NAMES)[0] == meant


def test_nothing_is_near_to_nonsense() -> None:
    assert nearest("s_excel", NAMES) == []


def test_habits_lead_to_settings_that_exist() -> None:
    flags = [trainer_flag(flag).name for flag in ("max_epochs", "devices", "accelerator")]
    known = {s.name for door in DOORS.values() for s in catalogue(door.schema)}
    assert set(HABITS.values()) <= known | {*flags, "trainer.precision", "network"}


def test_every_argument_of_lightnings_trainer_is_listed() -> None:
    assert set(inspect.signature(pl.Trainer).parameters) <= set(LIGHTNING_ARGUMENTS)
