"""Views that keep some windows of their recordings, so that only these train."""

from copy import copy
from dataclasses import replace

import numpy as np
from jaxtyping import Bool

from leakdet.storage.store import StoreSplit
from leakdet.storage.views import SplitView


def keeping(view: SplitView, kept: Bool[np.ndarray, " W"]) -> SplitView:
    """The view with these of its windows alone; every recording must keep one.

    Windows that are not kept count as those without sound: views of this one do not have them
    either, nor do samples, in memory or streamed.
    """
    counts = np.add.reduceat(kept.astype(np.int64), view.recording_offsets[:-1])
    if (counts == 0).any():
        raise ValueError(f"recording {view.recording_ids[counts == 0][0]} keeps no window")
    masks = [np.ones(base.windows, bool) if base.live is None else base.live for base in view.bases]
    alive = np.concatenate(masks)
    alive[view.mel.windows[~kept]] = False
    bounds = np.cumsum([base.windows for base in view.bases])[:-1]
    bases = [
        _with_live(base, mask)
        for base, mask in zip(view.bases, np.split(alive, bounds), strict=True)
    ]
    return replace(view, bases=bases).take(np.arange(view.recordings), view.name)


def _with_live(base: StoreSplit, live: Bool[np.ndarray, " W"]) -> StoreSplit:
    """A copy of a split as opened, of which only these windows are taken."""
    copied = copy(base)
    copied.__dict__["live"] = live
    return copied
