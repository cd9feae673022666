"""A run stops for want of a better check, or on a signal: several processes together, and soon."""

import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import lightning.pytorch as pl
import pytest
import torch

from leakdet.config import TrainerFlags
from leakdet.training.callbacks.stopping import (
    AGREE_EVERY,
    Interrupted,
    Interruption,
    LossStop,
    SelectionStop,
)
from leakdet.training.validation import Selection

F1 = Selection("f1")


def test_the_loss_stop_waits_while_f1_rises_or_the_loss_stands() -> None:
    stop = LossStop(2, TrainerFlags(), F1)
    assert [stop.update(loss, 0.5) for loss in (1.0, 1.005, 1.2, 1.3)] == [
        False,
        False,
        False,
        True,
    ]
    stop = LossStop(2, TrainerFlags(), F1)
    assert [
        stop.update(*pair) for pair in ((1.0, 0.5), (1.2, 0.5), (1.3, 0.6), (1.4, 0.6), (0.9, 0.6))
    ] == [False] * 5
    resumed = LossStop(2, TrainerFlags(), F1)
    resumed.load_state_dict({"waited": 1, "lowest": 1.0, "best_f1": 0.5})
    assert resumed.update(1.5, 0.5)


def test_stops_watch_what_select_names() -> None:
    loss, rate = Selection("loss"), Selection("tpr_at_fpr", 0.01)
    assert SelectionStop(2, TrainerFlags(), F1).monitor == "val/rank"
    assert SelectionStop(2, TrainerFlags(), rate).monitor == "val/selection"
    assert LossStop(2, TrainerFlags(), F1).monitor == "val/recording_f1"
    assert LossStop(2, TrainerFlags(), loss).monitor == "val/selection"


def stopped_after(steps_per_epoch: int, asked_at: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Steps of one of two processes until it stops, the other one having got a signal after
    `asked_at` steps.
    """
    trainer = Mock(
        spec=pl.Trainer,
        world_size=2,
        global_step=0,
        num_training_batches=steps_per_epoch,
        accumulate_grad_batches=1,
        strategy=SimpleNamespace(root_device="cpu"),
    )
    module = Mock(spec=pl.LightningModule)
    interruption = Interruption(Path("last.ckpt"))

    def all_reduce(mine: torch.Tensor, _: object) -> None:
        mine.fill_(signal.SIGTERM if trainer.global_step >= asked_at else 0)

    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    for _ in range(40):
        try:
            interruption.on_train_epoch_start(trainer, module)
            for batch in range(steps_per_epoch):
                trainer.global_step += 1
                interruption.on_train_batch_end(trainer, module, None, None, batch)
        except Interrupted as stop:
            return int(trainer.global_step) if stop.exit_code == 143 else -1
        interruption.on_save_checkpoint(trainer, module, {})
    raise AssertionError(
        f"{steps_per_epoch} steps an epoch, asked after {asked_at}: it never stopped"
    )


@pytest.mark.parametrize("steps_per_epoch", range(1, 18))
def test_processes_agree_within_some_steps(
    steps_per_epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for asked_at in range(1, 2 * AGREE_EVERY + 1):
        stopped = stopped_after(steps_per_epoch, asked_at, monkeypatch)
        assert asked_at <= stopped <= asked_at + AGREE_EVERY


def test_where_an_epoch_has_no_check_the_run_goes_on_to_the_next_checkpoint() -> None:
    """Stopping there would lose the steps since the latest one."""
    trainer = Mock(spec=pl.Trainer, world_size=1, global_step=5)
    module = Mock(spec=pl.LightningModule)
    interruption = Interruption(Path("last.ckpt"))
    interruption.on_save_checkpoint(trainer, module, {})
    interruption.received = signal.SIGINT
    trainer.global_step = 6
    interruption.on_train_epoch_start(trainer, module)
    interruption.on_save_checkpoint(trainer, module, {})
    with pytest.raises(Interrupted):
        interruption.on_train_epoch_start(trainer, module)


def test_a_second_signal_leaves_a_program_alive(capfd: pytest.CaptureFixture[str]) -> None:
    interruption = Interruption(Path("last.ckpt"))
    before = signal.getsignal(signal.SIGINT)
    with interruption.listening():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert interruption.received == signal.SIGINT
    assert signal.getsignal(signal.SIGINT) is before
    assert capfd.readouterr() == ("", "")


def test_outside_the_main_thread_signals_stay_as_they_are() -> None:
    before = signal.getsignal(signal.SIGINT)
    handlers = []

    def listen() -> None:
        with Interruption(Path("last.ckpt")).listening():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert handlers == [before]
