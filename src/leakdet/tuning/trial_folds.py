"""Cross-validation inside a trial, to avoid over-fitting a single validation split."""

from collections.abc import Sequence
from pathlib import Path

from leakdet.config import TuneConfig
from leakdet.crossvalidation.folds import RECORDING, group_keys, hold_out_groups, source_files
from leakdet.errors import InputError
from leakdet.evaluation.split_scores import split_group_by
from leakdet.storage.opening import open_labelled
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import SplitView, pooled
from leakdet.training.started_from import require_unmet, started_from, warn_of_start
from leakdet.training.stopping import needs_val
from leakdet.training.store_splits import open_splits


def trial_parts(config: TuneConfig, store: Path) -> Sequence[Sequence[StoreSplit]]:
    """Parts that each fold of a trial trains on and validates with; none where it uses the splits.

    Raises `InputError` where the store cannot be read or divided, or where the model that trials
    start from has met what validates them, before the first trial.
    """
    if config.tune.folds > 1:
        names = ("train", "val")
        both = pooled([open_labelled(store, name, config.labels) for name in names])
        require_unmet(config, both, f"tune.folds={config.tune.folds}")
        return trial_folds(store, both, config.tune.folds, config.seed)
    splits = open_splits(store, config.labels)
    chooses = needs_val(config, splits.val.recordings)
    warn_of_start(started_from(config), store, splits, chooses)
    return [()]


def trial_folds(
    store: Path, view: SplitView, folds: int, seed: int
) -> list[tuple[SplitView, SplitView]]:
    """Train and val part of each fold; every recording of `view`, train and val, validates once.

    Groups by which the store was split stay whole. The folds depend on the seed only, so that
    trials are compared on the same folds.

    Raises:
        InputError: too few groups, or a fold without both classes in either part; with the counts.
    """
    groups = group_keys(
        view.groups, split_group_by(store) or [RECORDING], view.recording_ids, "tune.folds"
    )
    is_leak, files = view.is_leak, source_files(view.groups, view.recording_ids)
    parts = []
    for _, rest, held_out in hold_out_groups(groups, is_leak, folds, seed, files):
        if all(0 < is_leak[part].sum() < len(part) for part in (rest, held_out)):
            parts.append((view.take(rest, "train"), view.take(held_out, "val")))
    if len(parts) < folds:  # parts may also be left empty, where groups are few
        leaks = int(is_leak.sum())
        raise InputError(
            f"{store}: tune.folds={folds}, but train and val, {leaks} leaks and "
            f"{len(is_leak) - leaks} others, give {len(parts)} parts with both kinds in them and "
            "in the rest. Ask for fewer folds."
        )
    return parts
