import shutil
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import numpy as np
import pytest
from lightning.pytorch.callbacks import Callback, DeviceStatsMonitor, EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

from leakdet.config import CallbacksConfig, TrainConfig
from leakdet.core.errors import InputError, SettingsError
from leakdet.storage.model_file import load_mel_detector
from leakdet.training import log_names
from leakdet.training.callbacks.built_in import (
    RESULTS_BYTES,
    History,
    make_callbacks,
    own_callbacks,
    space_line,
)
from leakdet.training.checkpoints import read_checkpoint
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import result_checkpoint
from leakdet.training.module import LeakModule
from leakdet.training.settings import own_classes


@pytest.mark.parametrize(("first_process", "written"), [(True, ["history.csv"]), (False, [])])
def test_the_first_process_writes_a_row_for_each_check(
    tmp_path: Path, first_process: bool, written: list[str]
) -> None:
    module = Mock(spec=LeakModule, history=[{"epoch": 0.0, "a": 1.5}, {"epoch": 1.0, "b": 2.0}])
    logger = CSVLogger(tmp_path, name="", version="logs")
    logger.log_metrics({"loss": 1.0}, 0)
    trainer = Mock(spec=pl.Trainer, is_global_zero=first_process, loggers=[logger])
    History(tmp_path).on_validation_end(trainer, module)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == written
    assert (tmp_path / log_names.STEPS).exists() == first_process
    if written:
        lines = (tmp_path / "history.csv").read_text().splitlines()
        assert lines == ["epoch,a,b", "0.0,1.5,", "1.0,,2.0"]


def test_a_sanity_check_before_training_writes_nothing(tmp_path: Path) -> None:
    trainer = Mock(spec=pl.Trainer, is_global_zero=True)
    History(tmp_path).on_validation_end(trainer, Mock(spec=LeakModule, history=[]))
    assert list(tmp_path.iterdir()) == []


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


Configured = Callable[..., TrainConfig]
Fitted = Callable[..., pl.Trainer]
SWITCHES = [field.name for field in fields(CallbacksConfig) if field.name != "extra"]
OFF = tuple(f"callbacks.{name}=false" for name in SWITCHES)


def names(callbacks: list[Callback]) -> list[str]:
    return [type(callback).__name__ for callback in callbacks]


CLASSES = {
    "early_stopping": "SelectionStop",
    "loss_stop": "LossStop",
    "learning_rate_monitor": "LearningRateMonitor",
}
LOGGED = {  # by the other switches, but for those of judges: test_diagnostics.py has these
    "loader_wait": "loader",
    "step_times": "speed",
    "first_batch": "first_batch",
    "gradient_monitor": "gradient",
    "system_use": "system",
}


@pytest.mark.parametrize("switch", CLASSES)
def test_a_switch_leaves_out_its_callback_and_no_other(
    switch: str, configured: Configured, tmp_path: Path
) -> None:
    everything = names(make_callbacks(configured("logger=csv"), tmp_path))
    kept = names(make_callbacks(configured("logger=csv", f"callbacks.{switch}=false"), tmp_path))
    assert [name for name in everything if name != CLASSES[switch]] == kept


@pytest.mark.parametrize("switch", LOGGED)
def test_a_switch_adds_its_numbers_to_the_log_and_no_others(
    switch: str, fitted: Fitted, tmp_path: Path
) -> None:
    only = (*(name for name in OFF if switch not in name), "logger=csv", "trainer.max_epochs=1")
    fitted(tmp_path, *only)
    columns = (tmp_path / log_names.STEPS).read_text().splitlines()[0].split(",")
    groups = {column.partition("/")[0] for column in columns if "/" in column}
    assert groups - {"train", "val", "gradient_layer"} == {LOGGED[switch]}


def test_the_settings_that_exist_switch_off_as_well(configured: Configured, tmp_path: Path) -> None:
    without = configured("loss_patience=0", "averaging.name=none")
    kept = names(make_callbacks(without, tmp_path))
    assert not {"LossStop", "EpochTable", "LearningRateMonitor"} & set(kept)
    table = configured("trainer.enable_progress_bar=true")
    assert "EpochTable" in names(make_callbacks(table, tmp_path))


def test_everything_switched_off_still_trains_checkpoints_and_stops(
    fitted: Fitted, tmp_path: Path
) -> None:
    trainer = fitted(tmp_path, *OFF, "trainer.max_epochs=2", "optimizer.lr=0", "patience=1")
    assert trainer.current_epoch == 2
    assert not (tmp_path / log_names.WARNINGS).exists()
    assert (tmp_path / log_names.HISTORY).exists()
    for name in (log_names.BEST_F1, log_names.BEST_LOSS, log_names.LAST):
        read_checkpoint(tmp_path / log_names.CHECKPOINTS / f"{name}.ckpt")


def test_a_run_goes_on_with_other_switches(fitted: Fitted, tmp_path: Path) -> None:
    fitted(tmp_path / "1", "trainer.max_epochs=1")
    resumed = fitted(tmp_path / "2", *OFF, "trainer.max_epochs=2", f"resume={tmp_path / '1'}")
    assert resumed.current_epoch == 2


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the current folder with a callback that counts epochs, and a progress bar."""
    name = "own_callbacks_of_this_test"
    (tmp_path / f"{name}.py").write_text(
        "from lightning.pytorch.callbacks import Callback, ProgressBar\n"
        "class Epochs(Callback):\n"
        "    count = 0\n"
        "    def on_train_epoch_end(self, trainer, pl_module):\n"
        "        Epochs.count += 1\n"
        "class Bar(ProgressBar):\n"
        "    def disable(self): ...\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_a_callback_of_the_current_folder_is_called_with_the_others(
    own_module: str, fitted: Fitted, tmp_path: Path
) -> None:
    extra = f"callbacks.extra=[{own_module}:Epochs]"
    fitted(tmp_path / "run", extra, "trainer.max_epochs=2")
    assert sys.modules[own_module].Epochs.count == 2


def test_an_own_progress_bar_takes_the_place_of_the_table(
    own_module: str, configured: Configured, tmp_path: Path
) -> None:
    extra = f"callbacks.extra=[{own_module}:Bar]"
    made = names(make_callbacks(configured(extra, "trainer.enable_progress_bar=true"), tmp_path))
    assert made[-1] == "Bar"
    assert "EpochTable" not in made


def test_a_misspelt_callback_ends_a_run_before_any_work(
    own_module: str, fitted: Fitted, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=rf"{own_module} has no Epoch; did you mean"):
        fitted(tmp_path / "run", f"callbacks.extra=[{own_module}:Epoch]")
    assert not (tmp_path / "run").exists()


def test_the_last_checkpoint_is_written_after_the_best_ones(
    configured: Configured, tmp_path: Path
) -> None:
    kept = [c for c in make_callbacks(configured(), tmp_path) if isinstance(c, ModelCheckpoint)]
    assert [c.filename for c in kept] == ["best_f1", "best_loss", "last"]


@pytest.mark.parametrize("select", ["auroc", "tpr_at_fpr", "fpr_at_tpr", "loss"])
def test_another_selection_writes_its_own_best_and_trains_as_before(
    select: str, fitted: Fitted, tmp_path: Path
) -> None:
    """Only which check is best differs: history and last weights are those of select=f1."""
    trainer = fitted(tmp_path, f"select={select}", "trainer.max_epochs=3", "loss_patience=0")
    best = result_checkpoint(trainer)
    assert best.name == "best_selected.ckpt"
    module: Any = trainer.lightning_module
    ranks = [row[log_names.VAL_SELECTION] for row in module.history]
    assert read_checkpoint(best)["epoch"] == int(np.argmax(ranks))
    names_there = {path.stem for path in best.parent.glob("*.ckpt")}
    assert names_there == {"best_selected", "best_f1", "best_loss", "last"}
    assert load_mel_detector(best).card["training"]["epoch"] == int(np.argmax(ranks))


def test_a_resumed_run_remembers_the_best_by_its_selection(fitted: Fitted, tmp_path: Path) -> None:
    settings = ("loss_patience=0", "trainer.max_epochs=3")
    first = fitted(tmp_path / "1", "select=auroc", settings[0], "trainer.max_epochs=2")
    again = ("select=auroc", *settings, f"resume={tmp_path / '1'}")
    resumed = fitted(tmp_path / "2", *again)
    before, after = (best_score(trainer) for trainer in (first, resumed))
    assert after == max(before, resumed.callback_metrics[log_names.VAL_SELECTION])
    assert result_checkpoint(resumed).parent == tmp_path / "2" / log_names.CHECKPOINTS
    with pytest.raises(SettingsError, match="select: auroc / f1"):
        fitted(tmp_path / "3", *settings, f"resume={tmp_path / '1'}")


def best_score(trainer: pl.Trainer) -> float:
    callback: Any = trainer.checkpoint_callback
    return float(callback.best_model_score)


def test_the_estimate_is_near_what_a_training_writes(
    configured: Callable[..., TrainConfig],
    fitted: Callable[..., Any],
    opened: Callable[[TrainConfig], LeakDataModule],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = configured("trainer.max_epochs=1")
    fitted(tmp_path, "trainer.max_epochs=1")
    files = list((tmp_path / log_names.CHECKPOINTS).glob("*.ckpt"))
    written = sum(file.stat().st_size for file in files)

    def line(free: int) -> str:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
        return space_line(opened(config), tmp_path / "run")

    assert len(files) == 3
    with pytest.raises(InputError, match=r"run: about .* free some space"):
        line(written + RESULTS_BYTES)  # one more file while another one is replaced
    assert line(2 * written + RESULTS_BYTES).startswith(f"folder   {tmp_path / 'run'}: about")
