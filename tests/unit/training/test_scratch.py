import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakdet.config import TrainConfig
from leakdet.evaluation.split_scores import score_split
from leakdet.storage.opening import open_labelled
from leakdet.storage.views import pooled
from leakdet.training import scratch
from leakdet.training.callbacks.stopping import Interrupted
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.scratch import further_aurocs, quiet, train_bare

Configured = Callable[..., TrainConfig]


def test_a_quiet_training_logs_nothing_and_keeps_the_rest(configured: Configured) -> None:
    config = configured("trainer.max_epochs=3", "seed=5")
    silent = quiet(config)
    assert silent.logger == {}
    assert not silent.trainer["enable_progress_bar"]
    assert (silent.seed, silent.trainer["max_epochs"], silent.data) == (5, 3, config.data)


def test_it_trains_on_the_splits_of_a_store_or_on_parts_of_them(
    configured: Configured, demo_store: Path, tmp_path: Path
) -> None:
    config = quiet(configured("network=linear", "trainer.max_epochs=1", "decision.policy=auto"))
    train, val = (open_labelled(demo_store, name) for name in ("train", "val"))
    swapped = [
        pooled([split]).take(np.arange(split.recordings), name)
        for split, name in ((val, "train"), (train, "val"))
    ]
    for parts, scored in (((), val), (swapped, train)):
        trained = train_bare(config, demo_store, tmp_path, [], *parts)
        found = score_split(trained.detector, scored)
        score = trained.rule.score(found.window_prob, scored.recording_offsets)
        assert (trained.val_score == score).all()
        assert (trained.rule.fitted_on, trained.rule.policy) == ("val", "max_f1")
        assert trained.steps > 0
        assert list(tmp_path.iterdir()) == []


NULL = ("network=linear", "trainer.max_epochs=1", "data.shuffle_labels=true")


def test_each_training_has_labels_of_its_own_and_leaves_nothing(
    configured: Configured, demo_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = []
    real = scratch.fit

    def noting(data: LeakDataModule, *rest: Any) -> Any:
        data.setup("fit")
        config = data.config
        labels.append(data.train_samples.class_of_recording.tolist())
        assert not config.logger
        assert not config.callbacks.collapse
        assert config.callbacks.early_stopping
        return real(data, *rest)

    monkeypatch.setattr(scratch, "fit", noting)
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

    monkeypatch.setattr(scratch, "fit", stopped)
    with pytest.raises(Interrupted) as stop:
        further_aurocs(configured(*NULL), demo_store, tmp_path)
    assert stop.value.checkpoint == tmp_path / "checkpoints" / "last.ckpt"
    assert stop.value.exit_code == 143
