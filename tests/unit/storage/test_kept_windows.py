"""Views that keep some windows of their recordings."""

from copy import deepcopy

import numpy as np
import pytest

from leakdet.loading.samples import SplitSamples
from leakdet.storage.kept_windows import keeping
from leakdet.storage.opening import open_split
from leakdet.storage.views import SplitView, pooled


@pytest.fixture
def view(write_store, planted) -> SplitView:
    live = np.array([True, False, True, True])
    recordings = [planted("leak", 1, live=live), planted("other", 2, live=np.ones(4, bool))]
    return pooled([open_split(write_store(train=recordings), "train")])


def test_only_kept_windows_are_in_a_view_and_in_views_and_samples_of_it(view: SplitView) -> None:
    mel = view.mel.read(0, view.windows)
    mask = np.array([False, True, True, True, False, False, True])
    kept = keeping(view, mask)
    assert kept.windows_per_recording.tolist() == [2, 2]
    assert (kept.mel.read(0, 4) == mel[mask]).all()
    assert kept.window_numbers.tolist() == [2, 3, 0, 3]
    both = pooled([kept, view])
    assert both.windows_per_recording.tolist() == [2, 2, 3, 4]
    assert (both.mel.read(0, 11) == np.concatenate([mel[mask], mel])).all()
    samples = SplitSamples(kept.take(np.array([1]), "train"), np.array([0]), "window")
    assert len(samples) == 2
    assert (samples.read(0, 2).numpy() == mel[mask][2:]).all()
    copied = deepcopy(kept)
    assert (copied.take(np.array([0]), "x").mel.read(0, 2) == mel[mask][:2]).all()
    assert view.windows == 7


def test_a_recording_must_keep_a_window(view: SplitView) -> None:
    with pytest.raises(ValueError, match=r"0000.wav keeps no window"):
        keeping(view, np.arange(7) >= 3)
