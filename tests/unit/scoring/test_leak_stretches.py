import numpy as np

from leakdet.scoring.leak_stretches import Stretch, leak_stretches, most_suspected
from leakdet.scoring.verdict import Verdict, Window


def verdict(*probs: float, hop_s: float = 0.5, dead: tuple[int, ...] = ()) -> Verdict:
    windows = [Window(hop_s * n, hop_s * n + 1.0, prob) for n, prob in enumerate(probs)]
    live = np.array([n not in dead for n in range(len(probs))])
    return Verdict("a.wav", "leak", max(probs), 0.5, windows, live=live)


def test_neighbouring_windows_are_joined() -> None:
    found = leak_stretches(verdict(0.1, 0.6, 0.9, 0.2, 0.1, 0.1, 0.5, hop_s=1.0))
    assert found == [Stretch(1.0, 3.0, 0.9, 2.5), Stretch(6.0, 7.0, 0.5, 6.5)]


def test_windows_that_overlap_or_touch_are_one_stretch() -> None:
    assert leak_stretches(verdict(0.6, 0.2, 0.7)) == [Stretch(0.0, 2.0, 0.7, 1.5)]
    assert len(leak_stretches(verdict(0.6, 0.2, 0.2, 0.7))) == 2


def test_dead_windows_are_in_no_stretch() -> None:
    assert leak_stretches(verdict(0.9, 0.9, hop_s=1.0, dead=(0,))) == [Stretch(1.0, 2.0, 0.9, 1.5)]
    assert leak_stretches(verdict(0.9, dead=(0,))) == []


def test_the_most_suspected_seconds_hold_the_highest_window() -> None:
    one = verdict(0.9, 0.1, 0.6, 0.95, 0.6, 0.1, hop_s=1.0)
    assert most_suspected(one, 10.0) == Stretch(2.0, 5.0, 0.95, 3.5)
    assert most_suspected(one, 2.0) == Stretch(2.5, 4.5, 0.95, 3.5)
    assert most_suspected(verdict(0.1, 0.2), 2.0) is None


def test_a_long_stretch_is_cut_within_itself() -> None:
    at_start = verdict(0.95, *[0.6] * 8, hop_s=1.0)
    assert most_suspected(at_start, 4.0)[:2] == (0.0, 4.0)
    at_end = verdict(*[0.6] * 8, 0.95, hop_s=1.0)
    assert most_suspected(at_end, 4.0)[:2] == (5.0, 9.0)


def test_of_equal_stretches_the_longest_is_taken() -> None:
    one = verdict(0.9, 0.1, 0.9, 0.9, 0.1, hop_s=1.0)
    assert most_suspected(one, 9.0)[:2] == (2.0, 4.0)
