"""Settings that contradict each other are refused; the others apply as the recordings allow."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch

from leakdet.config import DecisionConfig, StopConfig, TrainConfig
from leakdet.core.errors import SettingsError
from leakdet.reporting.training_figures import read_history
from leakdet.storage.model_file import load_mel_detector
from leakdet.training import log_names
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import result_checkpoint
from leakdet.training.run_summary import (
    few_steps_notes,
    introduction,
    steps_line,
    unused_gpu_notes,
)
from leakdet.training.settings import batch_size_for, check_settings, needs_val, resolved, stop_name

Configured = Callable[..., TrainConfig]
Opened = Callable[[TrainConfig], LeakDataModule]


def has_gpus(monkeypatch: pytest.MonkeyPatch, *total_gb: float) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(total_gb))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda n: (10**9, int(total_gb[n] * 1e9)))


@pytest.mark.parametrize(
    ("gpus", "size"),
    # as torch tells them: 4, 8, 16 (T4), 24, 40, 80, 141 and 192 GB, and two of a kind or not
    [
        ((4.2, 4.2), 1024),
        ((8.3, 8.3), 2048),
        ((15.8, 15.8), 4096),
        ((25.4, 42.4), 4096),
        ((42.4, 42.4), 8192),
        ((84.9, 205.0), 8192),
        ((150.0, 150.0), 16384),
        ((84.9, 8.3), 2048),
        ((84.9,), 0),  # steps find it
    ],
)
def test_the_smallest_of_several_gpus_decides(
    gpus: tuple[float, ...], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_gpus(monkeypatch, *gpus)
    assert batch_size_for({"accelerator": "gpu"}) == size
    assert batch_size_for({"accelerator": "cpu"}) == 512


def test_one_gpu_each_of_several_machines_is_several(monkeypatch: pytest.MonkeyPatch) -> None:
    has_gpus(monkeypatch, 84.9)
    assert batch_size_for({"accelerator": "gpu", "num_nodes": 2}) == 8192
    assert batch_size_for({"accelerator": "gpu", "num_nodes": 1}) == 0


def test_a_given_batch_size_stays_and_none_is_the_default_on_a_cpu(configured: Configured) -> None:
    def size(*overrides: str) -> int:
        return resolved(configured("stop.name=val", *overrides), 20, 10**6).data.batch_size

    assert size("data.batch_size=7") == 7
    assert size("data.batch_size=0") == 512


def test_an_epoch_of_a_handful_of_steps_is_named(configured: Configured, opened: Opened) -> None:
    config = configured("stop.name=val", "data.batch_size=1000000")
    data = opened(config)
    samples = len(data.train_samples)
    assert steps_line(config, data) == f"1 an epoch, each of {samples} windows"
    (note,) = few_steps_notes(config, data)
    assert "an epoch is 1 optimiser step," in note
    assert f"data.batch_size={samples // 10}" in note
    assert not list(few_steps_notes(configured("stop.name=val", "data.batch_size=2"), data))
    assert not list(few_steps_notes(configured("stop.name=fixed", "data.batch_size=99999"), data))
    sought = replace(config, data=replace(config.data, batch_size=0))
    assert not list(few_steps_notes(sought, data))
    assert "on the GPU" in steps_line(sought, data)


def test_the_effective_batch_is_that_of_a_step(configured: Configured, opened: Opened) -> None:
    config = configured("data.batch_size=10", "trainer.accumulate_grad_batches=4")
    data = opened(config)
    samples = len(data.train_samples)
    batches = -(-samples // 10)
    expected = f"{-(-batches // 4)} an epoch, each of at most {4 * -(-samples // batches)} windows"
    assert steps_line(config, data) == f"{expected}, 4 batches together"
    limited = configured("data.batch_size=10", "trainer.limit_train_batches=2")
    assert steps_line(limited, data).startswith("2 an epoch")


def test_a_gpu_that_is_not_used_is_named(
    configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert not list(unused_gpu_notes(configured()))
    has_gpus(monkeypatch, 84.9)
    assert ["trainer=gpu" in note for note in unused_gpu_notes(configured())] == [True]
    assert not list(unused_gpu_notes(configured("trainer=gpu")))


Fitted = Callable[..., pl.Trainer]


@pytest.mark.parametrize(
    ("name", "recordings", "expected"),
    [
        ("auto", 19, "fixed"),
        ("auto", 20, "val"),
        ("val", 2, "val"),
        ("fixed", 500, "fixed"),
    ],
)
def test_few_validation_recordings_choose_nothing(
    name: str, recordings: int, expected: str
) -> None:
    assert stop_name(StopConfig(name), recordings) == expected


@pytest.mark.parametrize(
    ("decision", "needed"),
    [
        (DecisionConfig(), False),
        (DecisionConfig(policy="fixed"), False),
        (DecisionConfig(policy="max_fpr"), True),
        (DecisionConfig(calibration="platt"), True),
    ],
)
def test_what_is_fitted_on_val_keeps_it_out_of_training(
    decision: DecisionConfig, needed: bool
) -> None:
    assert needs_val(TrainConfig(decision=decision), 6) == needed
    assert needs_val(TrainConfig(decision=decision), 60)


def test_auto_becomes_what_it_means_for_these_recordings(configured: Configured) -> None:
    config = configured("stop.name=auto", "trainer.max_epochs=200", "data.batch_size=512")
    fixed = resolved(config, 12, 144)
    assert (fixed.stop.name, fixed.trainer["max_epochs"]) == ("fixed", 10)
    assert fixed.data.batch_size == 14
    assert (fixed.decision.policy, fixed.decision.threshold) == ("fixed", 0.5)
    assert resolved(fixed, 12, 144) == fixed
    by_val = resolved(replace(config, stop=StopConfig("val")), 12, 144)
    assert (by_val.data.batch_size, by_val.trainer) == (512, config.trainer)
    assert by_val.decision.policy == "max_f1"


def test_what_was_asked_for_stays(configured: Configured) -> None:
    config = configured(
        "stop.name=fixed", "decision.policy=min_tpr", "trainer.max_epochs=2", "data.batch_size=4"
    )
    fixed = resolved(config, 12, 144)
    assert fixed.decision == config.decision
    assert (fixed.trainer["max_epochs"], fixed.data.batch_size) == (2, 4)


def test_fixed_ends_after_its_passes_with_the_last_weights(fitted: Fitted, tmp_path: Path) -> None:
    """A rate of 0 would have been stopped by patience; all three checkpoints are written."""
    still = ("trainer.max_epochs=50", "optimizer.lr=0", "optimizer.min_lr=0", "patience=1")
    trainer = fitted(tmp_path / "still", *still, "stop.name=fixed", "stop.passes=4")
    assert trainer.current_epoch == 4
    assert len(read_history(tmp_path / "still" / log_names.HISTORY)[log_names.VAL_F1]) == 4
    checkpoints = tmp_path / "still" / log_names.CHECKPOINTS
    assert {path.stem for path in checkpoints.iterdir()} == {"best_f1", "best_loss", "last"}
    assert result_checkpoint(trainer).stem == "last"
    assert load_mel_detector(result_checkpoint(trainer)).rule.threshold == 0.5


def test_the_last_weights_are_the_result_even_where_val_was_better_before(
    fitted: Fitted, tmp_path: Path
) -> None:
    trainer = fitted(tmp_path, "stop.name=fixed", "trainer.max_epochs=3", "optimizer.lr=1")
    last = load_mel_detector(result_checkpoint(trainer)).network.state_dict()
    module = trainer.lightning_module
    for name, value in module.network.state_dict().items():  # type: ignore[operator, union-attr]
        assert torch.equal(last[name], value)
    best = fitted(tmp_path / "val", "stop.name=val", "trainer.max_epochs=3")
    assert result_checkpoint(best).stem == "best_f1"


def test_the_start_says_why_val_chooses_nothing(configured: Configured, opened: Opened) -> None:
    config = configured("stop.name=auto", "trainer.max_epochs=200")
    told = introduction(opened(config))
    assert "after 10 epochs (stop.passes=10, fewer than trainer.max_epochs=200)" in told
    assert "12 validation recordings are too few" in told
    assert "of the loss" not in told
    natural = replace(config, data=replace(config.data, sampling="natural"))
    mostly_leaks = replace(natural, loss=replace(config.loss, name="focal", alpha=0.9))
    assert "90% of the loss" in introduction(opened(mostly_leaks))


@pytest.mark.parametrize("accelerator", ["gpu", "cuda"])
def test_a_gpu_that_torch_does_not_find_is_refused(
    accelerator: str, configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    config = configured(f"trainer.accelerator={accelerator}")
    with pytest.raises(SettingsError, match=r"no GPU .*trainer=cpu"):
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
    with pytest.raises(SettingsError, match=r"class balance.*Keep one"):
        check_settings(configured(*both))
    check_settings(configured(*both, "loss.allow_several_balances=true"))
