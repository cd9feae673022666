import io
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import periodogram

from leakdet.acoustics.measures import (
    FRAME_S,
    PIECE_S,
    DeadRuns,
    Flag,
    MainsHum,
    QuietLevel,
    WindowState,
    are_loud,
    dead_flags,
    low_share,
    window_state,
)
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.config import SignalConfig

NOISE = 0.1 * np.random.default_rng(0).standard_normal(24000)
SINE = 0.9 * np.sin(np.arange(24000))


def encoded(kind: str, sound: np.ndarray = NOISE, **how: str) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, sound, 16000, format=kind, **how)
    return file.getvalue()


WAV = encoded("WAV", subtype="PCM_16")
EXAMPLES: dict[Flag, bytes] = {
    "short": encoded("WAV", NOISE[:9000]),
    "silent": encoded("WAV", 0 * NOISE),
    "stuck": encoded("WAV", np.append(NOISE, np.full(16000, 0.3))),
    "dropouts": encoded("WAV", np.append(NOISE, np.zeros(16000))),
    "truncated": WAV[:40000],
    "damaged": WAV + bytes(range(1, 250)),
    "header_mended": WAV[:40] + bytes(4) + WAV[44:],
    "unchecked": encoded("VOC"),
    "channels_cancel": encoded("WAV", np.stack([NOISE, -NOISE], 1), subtype="FLOAT"),
    "clipped": encoded("WAV", np.clip(9 * NOISE, -1, 1)),
    "over_full_scale": encoded("WAV", 1.3 * SINE, subtype="FLOAT"),
    "narrow_band": encoded("WAV").replace(
        (16000).to_bytes(4, "little"), (8000).to_bytes(4, "little")
    ),
}  # the others say where a recording comes from, not what is in its file


@pytest.mark.parametrize("flag", EXAMPLES)
def test_each_flag_is_given(flag: Flag, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(EXAMPLES[flag])
    stream = MelStream(tmp_path / "x", LogMel(SignalConfig()))
    assert list(stream)
    assert flag in stream.facts.flags


QUIET_RATE_HZ = 8000


def level(sound: np.ndarray, rate_hz: int = QUIET_RATE_HZ, block: int = 32000) -> float | None:
    quiet = QuietLevel(rate_hz)
    for start in range(0, len(sound), block):
        quiet.add(sound[start : start + block].astype(np.float32))
    return quiet.dbfs()


def quiet_noise(seconds: float, rms: float = 0.1) -> np.ndarray:
    return (
        np.random.default_rng(0).normal(0.0, rms, int(seconds * QUIET_RATE_HZ)).astype(np.float32)
    )


def test_it_is_the_10th_percentile_of_the_levels_of_frames() -> None:
    sound = quiet_noise(5.03) * np.linspace(0.1, 1.0, int(5.03 * QUIET_RATE_HZ))
    size = int(FRAME_S * QUIET_RATE_HZ)
    frames = sound[: 50 * size].reshape(50, size)
    expected = np.percentile(20.0 * np.log10(frames.std(axis=1)), 10.0)
    assert level(sound) == pytest.approx(expected, abs=1e-3)


@settings(deadline=None)
@given(gain_db=st.floats(-40.0, 40.0), offset=st.floats(-0.01, 0.01))
def test_it_shifts_by_the_gain_and_not_by_an_offset(gain_db: float, offset: float) -> None:
    louder = quiet_noise(2.0, 0.01) * 10.0 ** (gain_db / 20.0) + offset
    before = level(quiet_noise(2.0, 0.01))
    assert before is not None
    assert level(louder) == pytest.approx(before + gain_db, abs=0.02)


@settings(deadline=None)
@given(block=st.integers(1, 20000))
def test_it_does_not_depend_on_the_blocks(block: int) -> None:
    sound = quiet_noise(1.33)
    assert level(sound, block=max(block, 50)) == pytest.approx(level(sound), abs=1e-5)


def test_a_loud_passage_does_not_raise_it_and_what_is_no_sound_does_not_lower_it() -> None:
    quiet = level(quiet_noise(10.0, 0.01))
    assert quiet is not None
    passing = quiet_noise(10.0, 0.01)
    passing[: 5 * QUIET_RATE_HZ] *= 30.0
    assert level(passing) == pytest.approx(quiet, abs=0.3)
    dropouts = quiet_noise(10.0, 0.01)
    dropouts[: 3 * QUIET_RATE_HZ] = 0.0
    dropouts[3 * QUIET_RATE_HZ : 5 * QUIET_RATE_HZ] = 0.5
    assert level(dropouts) == pytest.approx(quiet, abs=0.1)


def test_of_a_long_recording_some_frames_count_whatever_the_blocks() -> None:
    powers = np.random.default_rng(0).uniform(0.1, 1.0, 20_000).astype(np.float32)
    sound = np.repeat(powers, 16) * np.tile([1.0, -1.0], 160_000).astype(np.float32)
    every_eighth = 20.0 * np.log10(powers[::8])
    for block in (160, 7_000, 400_000):
        assert level(sound, 160, block) == pytest.approx(np.percentile(every_eighth, 10), abs=1e-4)
    assert level(sound, 160) == pytest.approx(np.percentile(20.0 * np.log10(powers), 10), abs=0.5)


def test_a_full_sine_is_3_db_below_full_scale_at_any_rate() -> None:
    for rate_hz in (8000, 11025, 44100):
        sine = np.sin(2 * np.pi * 440.0 * np.arange(2 * rate_hz) / rate_hz)
        assert level(sine, rate_hz) == pytest.approx(-3.01, abs=0.02)


def test_without_sound_there_is_no_level() -> None:
    for sound in (
        np.zeros(QUIET_RATE_HZ),
        np.full(QUIET_RATE_HZ, 0.25),
        quiet_noise(0.05),
        np.empty(0),
    ):
        assert level(sound) is None


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40))
def test_the_low_share_is_the_10th_percentile(values: list[float]) -> None:
    assert low_share(np.array(values)) == pytest.approx(np.percentile(values, 10.0), abs=1e-9)


def mains_hum_db(sound: np.ndarray, rate_hz: int) -> tuple[float, ...]:
    """`MainsHum.prominences_db` of a whole recording."""
    hum = MainsHum(rate_hz)
    piece = int(PIECE_S * rate_hz)
    for start in range(0, len(sound), piece):
        hum.add(sound[start : start + piece])
    return hum.prominences_db()


def tone(hz: float, rate_hz: int, seconds: float, amplitude: float = 0.05) -> np.ndarray:
    rng = np.random.default_rng(0)
    time_s = np.arange(int(seconds * rate_hz)) / rate_hz
    return rng.normal(0.0, 0.1, len(time_s)) + amplitude * np.sin(2 * np.pi * hz * time_s)


@pytest.mark.parametrize("rate_hz", [4000, 16000, 44100])
@pytest.mark.parametrize(
    ("hz", "at_50", "at_60"),
    [(50.0, True, False), (60.0, False, True), (180.0, False, True), (333.0, False, False)],
)
def test_hum_is_found_at_its_own_frequency(
    rate_hz: int, hz: float, at_50: bool, at_60: bool
) -> None:
    hum_db = mains_hum_db(
        tone(hz, rate_hz, 10.0, amplitude=0.05 * np.sqrt(rate_hz / 4000)), rate_hz
    )
    assert [value > 6.0 for value in hum_db] == [at_50, at_60]
    assert all(
        value < 3.0 for value, present in zip(hum_db, (at_50, at_60), strict=True) if not present
    )


@pytest.mark.parametrize("rate_hz", [8000, 11025, 44100, 48000])
def test_it_is_the_ratio_that_the_whole_spectrum_gives(rate_hz: int) -> None:
    """Reference: scipy's periodograms of four seconds each, without any decimation."""
    sound = tone(50.0, rate_hz, 12.0)
    pieces = sound.reshape(3, -1)
    hz, power = periodogram(pieces, rate_hz, window="hann", detrend=False)
    distance = np.abs(hz[:, None] - 50.0 * np.arange(1, 5)).min(axis=1)
    mean = power.mean(axis=0)
    on, beside = mean[distance <= 1.0].mean(), mean[(distance >= 3.0) & (distance <= 8.0)].mean()
    assert mains_hum_db(sound, rate_hz)[0] == pytest.approx(10.0 * np.log10(on / beside), abs=0.1)


def test_a_short_end_hardly_matters_and_silence_has_none() -> None:
    sound = tone(50.0, 8000, 8.0)
    assert mains_hum_db(np.append(sound, 0.01), 8000) == pytest.approx(
        mains_hum_db(sound, 8000), abs=0.01
    )
    assert mains_hum_db(np.zeros(9000), 8000) == (0.0, 0.0)
    assert all(np.isfinite(mains_hum_db(np.ones(1), 8000)))
    assert MainsHum(80).prominences_db() == (0.0, 0.0)  # a rate that cannot hold it


@pytest.mark.parametrize("rate_hz", [8000, 16000, 48000])
def test_the_stronger_mains_is_told_whatever_the_level(rate_hz: int) -> None:
    sound = tone(120.0, rate_hz, 9.0).astype(np.float32)
    told = strongest(sound, rate_hz)
    assert told == max(mains_hum_db(sound, rate_hz))
    assert told is not None
    assert told > 6.0
    assert strongest(sound * np.float32(0.01), rate_hz) == pytest.approx(told, abs=1e-3)


def test_what_cannot_be_told_is_none() -> None:
    assert strongest(tone(50.0, 8000, 0.9), 8000) is None
    assert strongest(np.zeros(16000), 8000) is None
    hum = MainsHum(80)
    hum.add(np.ones(160))
    assert not hum.is_told


def strongest(sound: np.ndarray, rate_hz: int) -> float | None:
    hum = MainsHum(rate_hz)
    piece = int(PIECE_S * rate_hz)
    for start in range(0, len(sound), piece):
        hum.add(sound[start : start + piece])
    return max(hum.prominences_db()) if hum.is_told else None


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
