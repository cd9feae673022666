"""A training that leaves nothing on disk gives a detector whose rule was fitted on val."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from leakdet.config import TrainConfig
from leakdet.evaluation.split_scores import score_split
from leakdet.storage.opening import open_labelled
from leakdet.storage.views import pooled
from leakdet.training.bare_training import quiet, train_bare

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
