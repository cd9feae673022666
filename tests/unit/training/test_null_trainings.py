"""The further trainings of a null run: their number, their labels, and that nothing stays."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakdet.config import TrainConfig
from leakdet.training import bare_training
from leakdet.training.callbacks.interruption import Interrupted
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.null_trainings import further_aurocs

Configured = Callable[..., TrainConfig]
NULL = ("network=linear", "trainer.max_epochs=1", "data.shuffle_labels=true")


def test_each_training_has_labels_of_its_own_and_leaves_nothing(
    configured: Configured, demo_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = []
    real = bare_training.fit

    def noting(config: TrainConfig, data: LeakDataModule, *rest: Any) -> Any:
        data.setup("fit")
        labels.append(data.train_samples.class_of_recording.tolist())
        assert not config.logger
        assert not config.callbacks.collapse
        assert config.callbacks.early_stopping
        return real(config, data, *rest)

    monkeypatch.setattr(bare_training, "fit", noting)
    config = configured(*NULL, "data.shuffle_repeats=3", "callbacks.loss_stop=false")
    aurocs = further_aurocs(config, demo_store, tmp_path)
    first = LeakDataModule(config, demo_store)
    first.setup("fit")
    labels.append(first.train_samples.class_of_recording.tolist())
    assert len(aurocs) == 2
    assert all(0 <= area <= 1 for area in aurocs)
    assert len({tuple(of_one) for of_one in labels}) == 3
    assert {sum(of_one) for of_one in labels} == {sum(labels[0])}
    assert list(tmp_path.iterdir()) == []
    assert further_aurocs(config, demo_store, tmp_path) == aurocs


def test_without_a_test_split_the_permuted_labels_of_val_judge(
    configured: Configured, write_store: Any, planted: Any, tmp_path: Path
) -> None:
    recordings = [planted("leak" if n % 2 else "other", seed=n, bump_db=9.0) for n in range(24)]
    store = write_store(train=recordings[:12], val=recordings[12:])
    config = configured(*NULL, "data.shuffle_repeats=2", f"data.store={store}")
    (area,) = further_aurocs(config, store, tmp_path)
    assert area in np.arange(37) / 36  # of 6 leaks and 6 others


def test_a_single_permutation_trains_nothing_more(
    configured: Configured, demo_store: Path, tmp_path: Path
) -> None:
    config = configured(*NULL, "data.shuffle_repeats=1")
    assert further_aurocs(config, demo_store, tmp_path / "absent") == []


def test_an_interruption_names_the_first_training(
    configured: Configured, demo_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any) -> None:
        raise Interrupted(signal.SIGTERM, Path("gone"))

    monkeypatch.setattr(bare_training, "fit", stopped)
    with pytest.raises(Interrupted) as stop:
        further_aurocs(configured(*NULL), demo_store, tmp_path)
    assert stop.value.checkpoint == tmp_path / "checkpoints" / "last.ckpt"
    assert stop.value.exit_code == 143
