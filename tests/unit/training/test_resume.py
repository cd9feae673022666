import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

from leakdet.cli.checks import refuse_used_folder
from leakdet.config import TrainConfig
from leakdet.core.errors import InputError, SettingsError
from leakdet.core.messages import messages_on_screen
from leakdet.training import log_names
from leakdet.training import trainer as trainer_module
from leakdet.training.callbacks.stopping import Interrupted, Interruption
from leakdet.training.checkpoints import read_checkpoint, transfer
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.resume import (
    RESUME_KEY,
    newest_checkpoint,
    run_differences,
    store_fingerprint,
    with_chosen_settings,
)

Configured = Callable[..., TrainConfig]
Opened = Callable[[TrainConfig], LeakDataModule]


def checkpoint(data: LeakDataModule) -> dict[str, Any]:
    return {
        "hyper_parameters": asdict(data.config),
        RESUME_KEY: {"store": store_fingerprint(data)},
    }


@pytest.mark.parametrize(
    "override",
    [
        "patience=3",
        "loss_patience=0",
        "trainer.max_epochs=99",
        "trainer.log_every_n_steps=7",
        "logger=csv",
        "callbacks=none",
        "data.cache=/elsewhere",
        "demo.sites=4",
    ],
)
def test_what_changes_neither_weights_nor_metrics_may_differ(
    override: str, configured: Configured, opened: Opened
) -> None:
    stored = checkpoint(opened(configured()))
    assert run_differences(stored, opened(configured(override))) == []


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("seed=7", "seed: 0 / 7"),
        ("data.batch_size=8", "data.batch_size: 16 / 8"),
        ("trainer.precision=bf16-mixed", "trainer.precision: 32-true / bf16-mixed"),
        ("+trainer.gradient_clip_algorithm=value", "trainer.gradient_clip_algorithm: None / value"),
        ("callbacks.extra=[a:B]", "callbacks.extra: [] / ['a:B']"),
        ("decision.policy=fixed", "decision.policy: max_f1 / fixed"),
    ],
)
def test_what_changes_them_is_named_with_both_values(
    override: str, named: str, configured: Configured, opened: Opened
) -> None:
    stored = checkpoint(opened(configured()))
    assert run_differences(stored, opened(configured(override))) == [named]


def test_a_run_cannot_end_before_what_it_has_reached(
    configured: Configured, opened: Opened
) -> None:
    stored = {**checkpoint(opened(configured())), "epoch": 4}
    assert run_differences(stored, opened(configured("trainer.max_epochs=4"))) == []
    assert run_differences(stored, opened(configured("trainer.max_epochs=3"))) == [
        "trainer.max_epochs: epoch 5 was reached / 3"
    ]


def test_other_data_is_a_difference(configured: Configured, opened: Opened) -> None:
    data = opened(configured())
    stored = checkpoint(data)
    stored[RESUME_KEY]["store"] = "0" * 12
    (only,) = run_differences(stored, data)
    assert only == f"the data's fingerprint: {'0' * 12} / {store_fingerprint(data)}"


def test_a_setting_that_an_older_version_lacked_was_at_its_default(
    configured: Configured, opened: Opened
) -> None:
    data = opened(configured())
    stored = checkpoint(data)
    del stored["hyper_parameters"]["callbacks"]
    stored["hyper_parameters"]["find_batch_size"] = False  # which was removed
    assert run_differences(stored, data) == []
    assert len(run_differences(stored, opened(configured("callbacks.extra=[a:B]")))) == 1


def test_settings_that_were_chosen_are_taken_over(configured: Configured, opened: Opened) -> None:
    stored = checkpoint(opened(configured("optimizer.lr=0.5", "data.batch_size=64")))
    data = opened(configured("find_lr=true", "data.batch_size=0"))
    assert run_differences(stored, data) == []
    resumed = with_chosen_settings(data, stored)
    assert (resumed.optimizer.lr, resumed.data.batch_size) == (0.5, 64)
    plain = opened(configured())
    assert with_chosen_settings(plain, stored) == plain.config


Fitted = Callable[..., pl.Trainer]


class SignalAt(Callback):
    """Sends this process a signal once a given optimiser step is done."""

    def __init__(self, step: int, number: int) -> None:
        self.step, self.number = step, number

    def on_before_zero_grad(self, trainer: "pl.Trainer", *_: Any) -> None:
        if trainer.global_step == self.step:
            self.step = -1
            os.kill(os.getpid(), self.number)


def interrupt(monkeypatch: pytest.MonkeyPatch, step: int, number: int = signal.SIGTERM) -> None:
    plain = trainer_module.make_callbacks
    monkeypatch.setattr(
        trainer_module, "make_callbacks", lambda *a: [*plain(*a), SignalAt(step, number)]
    )


def weights(folder: Path, name: str = log_names.LAST) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = read_checkpoint(folder / "checkpoints" / f"{name}.ckpt")[
        "state_dict"
    ]
    return found


def scores(folder: Path) -> dict[str, float]:
    """The best scores as last.ckpt tells them, by what is monitored."""
    states = read_checkpoint(folder / "checkpoints" / "last.ckpt")["callbacks"]
    return {
        s["monitor"]: float(s["best_model_score"])
        for s in states.values()
        if s.get("monitor") and "dirpath" in s
    }


ONE_STEP = ("data.batch_size=100000", "patience=100", "loss_patience=0")
RECIPES = {
    "default": ("trainer.max_epochs=3",),
    "accumulated": ("trainer.max_epochs=3", "trainer.accumulate_grad_batches=2"),
    "averaged": ("trainer.max_epochs=3", "averaging.name=ema", "averaging.ema_decay=0.8"),
    "one step an epoch": (*ONE_STEP, "trainer.max_epochs=7"),
    "one step, plain average": (
        *ONE_STEP,
        "trainer.max_epochs=8",
        "averaging.name=swa",
        "averaging.swa_start=0.25",
    ),
}


@pytest.mark.parametrize(
    ("recipe", "step", "again"),
    [("default", 4, "2"), ("accumulated", 4, "2"), ("averaged", 4, "2"), ("default", 6, "2"), ("default", 14, "1")],
)  # fmt: skip
def test_an_interrupted_run_ends_with_the_weights_of_an_uninterrupted_one(
    recipe: str,
    step: int,
    again: str,
    fitted: Fitted,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cut within the first epoch of 6 steps, at its end and within the third; gone on with beside
    it or in its own folder.
    """
    overrides = RECIPES[recipe]
    fitted(tmp_path / "whole", *overrides)
    with monkeypatch.context() as patched:
        interrupt(patched, step=step)
        with pytest.raises(Interrupted) as stop:
            fitted(tmp_path / "cut" / "1", *overrides)
    assert stop.value.exit_code == 143
    assert read_checkpoint(stop.value.checkpoint)["global_step"] in (step, step + 1)
    fitted(tmp_path / "cut" / again, *overrides, "resume=auto")
    whole, cut = weights(tmp_path / "whole"), weights(tmp_path / "cut" / again)
    assert all(torch.equal(whole[name], cut[name]) for name in whole)
    assert (tmp_path / "whole" / "history.csv").read_text() == (
        tmp_path / "cut" / again / "history.csv"
    ).read_text()
    assert scores(tmp_path / "whole") == scores(tmp_path / "cut" / again)


def test_processes_that_another_program_started_resume_from_a_named_checkpoint(
    fitted: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As torchrun starts them: each knows its rank, and none was told what the first one decided."""
    fitted(tmp_path / "1", "trainer.max_epochs=1")
    last = tmp_path / "1" / "checkpoints" / "last.ckpt"
    monkeypatch.delenv("LEAKDET_RESUME_FROM", raising=False)
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(SettingsError, match=r"another program .*resume=FOLDER"):
        fitted(tmp_path / "2", "resume=auto")
    monkeypatch.setenv("LOCAL_RANK", "0")
    again = fitted(tmp_path / "2", "trainer.max_epochs=2", f"resume={last}")
    assert again.global_step == 2 * read_checkpoint(last)["global_step"]


def test_the_same_seed_gives_the_same_numbers_and_another_seed_does_not(
    fitted: Fitted, tmp_path: Path
) -> None:
    for name, seed in (("one", 3), ("same", 3), ("other", 4)):
        fitted(tmp_path / name, "trainer.max_epochs=2", f"seed={seed}")
    one, same, other = (
        (tmp_path / name / log_names.HISTORY).read_bytes() for name in ("one", "same", "other")
    )
    assert one == same
    assert one != other


def test_ctrl_c_is_130_and_handlers_are_given_back(
    fitted: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    interrupt(monkeypatch, step=1, number=signal.SIGINT)
    with pytest.raises(Interrupted) as stop:
        fitted(tmp_path)
    assert stop.value.exit_code == 130
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


class SignalIn(Callback):
    """Sends this process SIGTERM in a hook."""

    def __init__(self, hook: str) -> None:
        # to this thread: os.kill may reach another one, and this one a little later
        setattr(self, hook, lambda *_, **__: signal.raise_signal(signal.SIGTERM))


@pytest.mark.parametrize("hook", ["setup", "on_validation_batch_end", "on_train_start"])
def test_before_the_first_step_there_is_nothing_to_save(
    fitted: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: str
) -> None:
    """While the trainer sets up, during the check before training, and right before the step."""
    with monkeypatch.context() as patched:
        plain = trainer_module.make_callbacks
        patched.setattr(trainer_module, "make_callbacks", lambda *a: [*plain(*a), SignalIn(hook)])
        with pytest.raises(Interrupted, match=r"SIGTERM before ") as stop:
            fitted(tmp_path / "1", "trainer.num_sanity_val_steps=2")
    assert (stop.value.exit_code, stop.value.saved) == (143, False)
    assert list(tmp_path.rglob("*.ckpt")) == []
    refuse_used_folder(tmp_path / "1")
    fitted(tmp_path / "1", "trainer.max_epochs=1")
    with monkeypatch.context() as patched:  # a run that goes on has its checkpoint already
        patched.setattr(trainer_module, "make_callbacks", lambda *a: [*plain(*a), SignalIn(hook)])
        with pytest.raises(Interrupted) as stop:
            fitted(tmp_path / "1", "trainer.max_epochs=2", "resume=auto")
    assert stop.value.saved
    assert read_checkpoint(stop.value.checkpoint)["epoch"] == 0


def test_a_best_score_taken_over_is_no_run_before_the_first_step(
    fitted: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted(tmp_path / "old", "trainer.max_epochs=1")
    source = tmp_path / "old" / "checkpoints" / "last.ckpt"
    start = (f"init_from={source}", "init_reset=[optimizer,schedule]", "trainer.max_epochs=1")
    kept = sorted(source.parent.iterdir())
    with monkeypatch.context() as patched:
        plain, at = trainer_module.make_callbacks, SignalIn("on_train_start")
        patched.setattr(trainer_module, "make_callbacks", lambda *a: [*plain(*a), at])
        with pytest.raises(Interrupted, match=r"before the first step$"):
            fitted(tmp_path / "new", *start)
    refuse_used_folder(tmp_path / "new")
    assert sorted(source.parent.iterdir()) == kept
    fitted(tmp_path / "new", *start)
    assert (tmp_path / "new" / "checkpoints" / "best_f1.ckpt").exists()


def test_the_best_moves_along_and_is_kept_when_later_epochs_are_worse(
    fitted: Fitted, tmp_path: Path
) -> None:
    fitted(tmp_path / "1", "trainer.max_epochs=2")
    best = read_checkpoint(tmp_path / "1" / "checkpoints" / "best_f1.ckpt")
    resumed = fitted(tmp_path / "2", "trainer.max_epochs=3", f"resume={tmp_path / '1'}")
    kept = resumed.checkpoint_callback
    assert isinstance(kept, ModelCheckpoint)
    assert Path(kept.best_model_path).parent == tmp_path / "2" / "checkpoints"
    found = read_checkpoint(Path(kept.best_model_path))
    if float(kept.best_model_score or 0) == scores(tmp_path / "1")[log_names.VAL_RANK]:
        assert found["global_step"] == best["global_step"]
    assert float(kept.best_model_score or 0) >= scores(tmp_path / "1")[log_names.VAL_RANK]


def test_a_damaged_last_falls_back_to_the_newest_checkpoint_one_and_says_so(
    fitted: Fitted, tmp_path: Path, messages: pytest.LogCaptureFixture
) -> None:
    fitted(tmp_path / "1", "trainer.max_epochs=1")
    last = tmp_path / "1" / "checkpoints" / "last.ckpt"
    last.write_bytes(last.read_bytes()[:1000])
    found = newest_checkpoint(last.parent)
    assert found is not None
    assert found.name in ("best_f1.ckpt", "best_loss.ckpt")
    assert re.search(r"last\.ckpt .*damaged.* newest whole checkpoint", messages.text)
    fitted(tmp_path / "2", "trainer.max_epochs=2", f"resume={tmp_path / '1'}")
    assert read_checkpoint(tmp_path / "2" / "checkpoints" / "last.ckpt")["epoch"] == 1


def test_other_settings_or_data_are_refused_with_their_names(
    fitted: Fitted, tmp_path: Path
) -> None:
    fitted(tmp_path / "1", "trainer.max_epochs=1")
    with pytest.raises(SettingsError, match=r"seed: 0 / 7"):
        fitted(tmp_path / "2", "trainer.max_epochs=1", "seed=7", f"resume={tmp_path / '1'}")
    with pytest.raises(InputError, match="no whole checkpoint"):
        fitted(tmp_path / "3", f"resume={tmp_path}")
    with pytest.raises(SettingsError, match="holds a run already"):
        refuse_used_folder(tmp_path / "1")


def test_what_the_first_process_has_inherited_is_no_other_run_to_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "best_f1.ckpt").touch()
    monkeypatch.setenv("LOCAL_RANK", "1")
    refuse_used_folder(tmp_path)
    monkeypatch.setenv("LOCAL_RANK", "0")
    with pytest.raises(SettingsError, match="holds a run already"):
        refuse_used_folder(tmp_path)


def test_auto_begins_anew_where_nothing_fits_and_says_why(
    fitted: Fitted, tmp_path: Path, messages: pytest.LogCaptureFixture
) -> None:
    fitted(tmp_path / "1", "trainer.max_epochs=1")
    fitted(tmp_path / "2", "trainer.max_epochs=1", "seed=7", "resume=auto")
    said = messages.text
    assert "seed: 0 / 7" in said
    assert "a new run begins" in said
    assert read_checkpoint(tmp_path / "2" / "checkpoints" / "last.ckpt")["epoch"] == 0


def test_a_stopped_run_stays_stopped(fitted: Fitted, tmp_path: Path) -> None:
    trainer = fitted(
        tmp_path, "trainer.max_epochs=8", "patience=1", "optimizer.lr=0", "optimizer.min_lr=0"
    )
    resumed = fitted(
        tmp_path,
        "trainer.max_epochs=8",
        "patience=1",
        "optimizer.lr=0",
        "optimizer.min_lr=0",
        "resume=auto",
    )
    assert trainer.global_step == resumed.global_step
    assert (trainer.max_epochs or 0) > trainer.current_epoch


def test_a_stopped_run_goes_on_with_more_patience_and_says_why_it_ends(
    fitted: Fitted, tmp_path: Path, messages: pytest.LogCaptureFixture
) -> None:
    still = ("trainer.max_epochs=8", "optimizer.lr=0", "optimizer.min_lr=0", "loss_patience=0")
    first = fitted(tmp_path, *still, "patience=1")
    assert "no better F1 for 1 epoch (best" in messages.text
    messages.clear()
    resumed = fitted(tmp_path, *still, "patience=3", "resume=auto")
    said = [line for line in messages.messages if line.startswith("stopped")]
    assert resumed.global_step == 2 * first.global_step  # from two epochs to four
    assert len(said) == 1
    assert said[0].startswith("stopped  no better F1 for 3 epochs (best ")
    assert said[0].endswith("; of checks with equal F1 that with the lower loss is better")


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (
            ("trainer.max_epochs=2", "+trainer.max_time={milliseconds:1}"),
            "trainer.max_time is over; nothing more was trained",
        ),
        (("trainer.max_epochs=1",), "the run had reached trainer.max_epochs=1"),
    ],
)
def test_a_resumed_run_whose_limit_is_reached_says_so(
    now: tuple[str, ...], told: str, fitted: Fitted, tmp_path: Path, messages: Any
) -> None:
    fixed = ("stop.name=fixed", "+trainer.max_time={hours:1}", "trainer.max_epochs=1")
    first = fitted(tmp_path, *fixed)
    assert "stopped" not in messages.text
    resumed = fitted(tmp_path, *fixed[: 3 - len(now)], *now, f"resume={tmp_path}")
    assert resumed.global_step == first.global_step
    assert [line for line in messages.messages if told in line]


def test_checkpoints_are_whole_plain_and_directly_in_their_folder(
    fitted: Fitted, tmp_path: Path
) -> None:
    fitted(tmp_path, "trainer.max_epochs=2")
    found = sorted(
        path.relative_to(tmp_path / "checkpoints").as_posix()
        for path in tmp_path.glob("checkpoints/**/*")
    )
    assert found == ["best_f1.ckpt", "best_loss.ckpt", "last.ckpt"]
    for name in found:
        assert read_checkpoint(tmp_path / "checkpoints" / name)["hyper_parameters"]["seed"] == 0
    last = read_checkpoint(tmp_path / "checkpoints" / "last.ckpt")
    assert last["epoch"] == 1  # of the last epoch, better or not


def test_a_second_signal_ends_a_command_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ended: list[int] = []
    monkeypatch.setattr("leakdet.training.callbacks.stopping.os._exit", ended.append)
    interruption = Interruption(tmp_path / "last.ckpt")
    with messages_on_screen(), interruption.listening():
        os.kill(os.getpid(), signal.SIGTERM)
        assert ended == []
        os.kill(os.getpid(), signal.SIGINT)
    assert ended == [130]


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_killed_at_six_random_moments_it_goes_on_and_the_best_never_gets_worse(
    fitted: Fitted, tmp_path: Path
) -> None:
    """A process of its own per life, forked so that nothing is imported anew. Every other life is
    let live to a new check.
    """
    overrides = ("trainer.max_epochs=400", "patience=400", "loss_patience=0", "resume=auto")
    checkpoints, history = tmp_path / "run" / "checkpoints", tmp_path / "run" / "history.csv"
    best, steps = -1.0, -1
    for life, wait_s in enumerate(np.random.default_rng(0).uniform(0.0, 0.5, 6)):
        before = _changed(history)
        child = os.fork()
        if child == 0:
            try:
                torch.set_num_threads(1)  # threads of the parent's are not there after a fork
                fitted(tmp_path / "run", *overrides)
            finally:
                os._exit(1)  # reached only by a run that could not go on
        while life % 2 and _changed(history) == before and os.waitpid(child, os.WNOHANG)[0] == 0:
            time.sleep(0.01)
        time.sleep(wait_s)
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        if not any(checkpoints.glob("*.ckpt")):
            continue
        found = newest_checkpoint(checkpoints)
        assert found is not None
        now, step = (
            _best_f1(transfer(found, tmp_path / "seen")),
            int(read_checkpoint(found)["global_step"]),
        )
        assert now >= best
        assert step >= steps
        best, steps = now, step
    assert steps > 0


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def _best_f1(last: Path) -> float:
    states = read_checkpoint(last)["callbacks"].values()
    return next(
        float(s["best_model_score"]) for s in states if s.get("monitor") == log_names.VAL_RANK
    )
