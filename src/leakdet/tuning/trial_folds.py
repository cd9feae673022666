"""Folds inside a trial: train and val divided anew, so that no lucky val chooses the settings. Test is never among them."""

from pathlib import Path

from leakdet.crossvalidation.folds import RECORDING, group_keys, hold_out_groups
from leakdet.errors import InputError
from leakdet.evaluation.split_scores import split_group_by
from leakdet.storage.opening import leak_label_of, open_any_split
from leakdet.storage.views import SplitView, pooled


def trial_folds(
    store: Path, folds: int, seed: int, leak: str | None = None
) -> list[tuple[SplitView, SplitView]]:
    """What each fold trains on and is validated with: every recording of train and val validates once.

    Groups by which the store was split stay whole. The division depends on the seed alone, so that trials are compared on
    the same folds.

    Raises:
        InputError: too few groups, or a fold without both classes in either part; with the counts.
    """
    view = pooled([open_any_split(store, name) for name in ("train", "val")])
    groups = group_keys(
        view.groups, split_group_by(store) or [RECORDING], view.recording_ids, "tune.folds"
    )
    is_leak = view.label_id == view.label_names.index(leak_label_of(view, leak))
    found = []
    for _, rest, held_out in hold_out_groups(groups, is_leak, folds, seed):
        if all(0 < is_leak[part].sum() < len(part) for part in (rest, held_out)):
            found.append((view.take(rest, "train"), view.take(held_out, "val")))
    if len(found) < folds:  # parts may also be left empty, where groups are few
        leaks = int(is_leak.sum())
        raise InputError(
            f"{store}: tune.folds={folds}, but train and val, {leaks} leaks and {len(is_leak) - leaks} others, give "
            f"{len(found)} parts with both kinds in them and beside them. Ask for fewer folds."
        )
    return found
