"""A split as training sees its labels: renamed, merged, without those that are left out."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leakdet.config import LabelsConfig
from leakdet.detection.label_view import LabelView, joined, label_view
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import pooled


def labelled(split: StoreSplit, labels: LabelsConfig | None = None) -> StoreSplit:
    """The split under label settings; None: the defaults. Recordings to be left out are not in it.

    Raises:
        InputError: see `label_view`.
    """
    where = str(split.files[0].parent)
    view = label_view(split.label_names, labels or LabelsConfig(), where, split.leak_labels)
    view = view.counting(np.array(split.label_names)[split.label_id].tolist())
    new_id = np.array(view.ids(split.label_names), np.int64)[split.label_id]
    relabelled = replace(
        split,
        label_id=new_id,
        label_names=list(view.names),
        leak_labels=list(view.leaks),
        label_view=view,
    )
    if not view.left_out:
        return relabelled
    return pooled([relabelled]).take(np.flatnonzero(new_id >= 0), split.name)


def view_of(split: StoreSplit) -> LabelView:
    """The label view that the split was opened under; of one that was not, the default view."""
    return split.label_view or label_view(
        split.label_names, LabelsConfig(), str(split.files[0].parent), split.leak_labels
    )


def view_of_all(splits: Sequence[StoreSplit]) -> LabelView:
    """The view of several splits of a store, with what is left out of all of them."""
    view = joined([view_of(split) for split in splits])
    assert view is not None
    return view
