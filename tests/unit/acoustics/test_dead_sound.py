import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakdet.acoustics.dead_sound import DeadRuns, WindowState, are_loud, dead_flags, window_state

RATE_HZ = 2000  # the shortest dead run has 20 sample points


def noise(samples: int, seed: int = 0) -> np.ndarray:
    return (0.1 * np.random.default_rng(seed).standard_normal(samples)).astype(np.float32)


@given(
    st.lists(st.tuples(st.integers(1, 200), st.sampled_from([None, 0.0, 0.5])), max_size=8),
    st.lists(st.integers(0, 150), min_size=1, max_size=20),
    st.integers(0, 300),
    st.integers(1, 300),
)
def test_runs_are_those_of_a_plain_search_however_the_sound_arrives(
    pieces: list[tuple[int, float | None]], sizes: list[int], start: int, length: int
) -> None:
    parts = [
        noise(n, seed) if value is None else np.full(n, value, np.float32)
        for seed, (n, value) in enumerate(pieces)
    ]
    sound = np.concatenate([noise(30, 99), *parts])
    runs, at, number = DeadRuns(RATE_HZ), 0, 0
    while at < len(sound):
        size = sizes[number % len(sizes)] or number % 2
        runs.add(sound[at : at + size])
        at, number = at + size, number + 1
    zero, other = np.zeros(len(sound), bool), np.zeros(len(sound), bool)
    first = 0
    for end in range(1, len(sound) + 1):
        if end == len(sound) or sound[end] != sound[first]:
            if end - first >= 20:
                (zero if sound[first] == 0 else other)[first:end] = True
            first = end
    stop = min(len(sound), start + length)
    expected = (int(zero[start:stop].sum()), int(other[start:stop].sum()))
    assert runs.within(start, stop) == expected


def test_states_of_windows() -> None:
    live = noise(1000)
    dither = np.random.default_rng(1).integers(-1, 2, 1000).astype(np.float32) * 2.0**-16
    assert window_state(live) is WindowState.LIVE
    assert window_state(live, 100) is WindowState.LIVE
    assert window_state(live, 101) is WindowState.DROPOUT
    assert window_state(live, 40, 70) is WindowState.STUCK
    assert window_state(np.zeros(1000, np.float32)) is WindowState.SILENT
    assert window_state(dither) is WindowState.SILENT
    assert window_state(dither + np.float32(0.2)) is WindowState.STUCK


@pytest.mark.parametrize(
    ("states", "flags"),
    [
        ("LIVE", []),
        ("SILENT", ["silent"]),
        ("LIVE SILENT", ["dropouts"]),
        ("LIVE DROPOUT", ["dropouts"]),
        ("DROPOUT SILENT", ["dropouts"]),
        ("STUCK", ["stuck"]),
        ("LIVE STUCK SILENT", ["stuck", "dropouts"]),
    ],
)
def test_flags_of_a_recording(states: str, flags: list[str]) -> None:
    assert dead_flags([WindowState[name] for name in states.split()]) == flags


@given(st.floats(-7, 0), st.integers(0, 5))
def test_what_is_surely_loud_is_not_silent(exponent: float, seed: int) -> None:
    window = noise(4000, seed) * np.float32(10.0**exponent)
    if are_loud(window[None, :2000], 4000):
        assert window_state(window) is WindowState.LIVE


def test_ordinary_noise_is_surely_loud_and_silence_never_is() -> None:
    assert are_loud(noise(4000).reshape(2, 2000), 4000)
    assert not are_loud(np.stack([noise(2000), np.zeros(2000, np.float32)]), 4000)
