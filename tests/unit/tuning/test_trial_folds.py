from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakdet.errors import InputError
from leakdet.storage.opening import open_labelled, open_split
from leakdet.storage.views import SplitView, pooled
from leakdet.tuning.trial_folds import trial_folds


def both(store: Path) -> SplitView:
    return pooled([open_labelled(store, name) for name in ("train", "val")])


def test_every_recording_of_train_and_val_validates_once_and_sites_stay_whole(
    demo_store: Path,
) -> None:
    folds = trial_folds(demo_store, both(demo_store), 3, seed=0)
    known = [open_split(demo_store, name).recording_ids for name in ("train", "val")]
    validated = np.concatenate([val.recording_ids for _, val in folds])
    assert sorted(validated) == sorted(np.concatenate(known))
    for train, val in folds:
        assert not set(train.groups["site"]) & set(val.groups["site"])
        assert train.recordings + val.recordings == len(validated)


def test_trials_are_compared_on_the_same_folds(demo_store: Path) -> None:
    ids = [
        [
            val.recording_ids.tolist()
            for _, val in trial_folds(demo_store, both(demo_store), 2, seed=seed)
        ]
        for seed in (3, 3, 4)
    ]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(
    ("leaks", "folds", "said"),
    [
        (6, 30, "cannot make 30 folds"),
        (6, 8, r"fill only \d of 8 folds"),
        (2, 4, r"2 leaks and 10 others, give \d parts with both kinds"),
    ],
)
def test_more_folds_than_can_be_filled_are_refused(
    write_store: Callable[..., Path], planted: Callable[..., Any], leaks: int, folds: int, said: str
) -> None:
    made = [planted("leak" if seed < leaks else "other", seed) for seed in range(12)]
    store = write_store(train=made[::2], val=made[1::2])
    with pytest.raises(InputError, match=said):
        trial_folds(store, both(store), folds, seed=0)
