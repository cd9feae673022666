from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import Chunk, MelStream, chunk_mel, split_into_chunks, window_starts
from leakdet.config import SignalConfig

SMALL = SignalConfig(2000, 200, 100, 50, 25, n_mels=8, fmin_hz=0.0)


WINDOW, HOP = st.integers(50, 300), st.integers(20, 300)


def small_signal(window: int, hop: int) -> SignalConfig:
    return SignalConfig(2000, window, min(hop, window), 50, 25, n_mels=8, fmin_hz=0.0)


@given(WINDOW, HOP, st.integers(1, 2000), st.lists(st.integers(1, 700), min_size=1, max_size=40))
def test_windows_do_not_depend_on_how_the_sound_arrives(
    window: int, hop: int, n_samples: int, sizes: list[int]
):
    signal = small_signal(window, hop)
    sound = np.arange(n_samples, dtype=np.float32)
    blocks, at = [], 0
    while at < n_samples:
        size = sizes[len(blocks) % len(sizes)]
        blocks.append(sound[at : at + size])
        at += size
    starts, content = [], []
    for chunk in split_into_chunks(blocks, signal):
        assert chunk.sound[0] == chunk.start_sample  # the sound is its own position here
        for number in range(chunk.windows):
            begin = number * signal.window_hop_samples
            starts.append(chunk.start_sample + begin)
            content.append(chunk.sound[begin : begin + signal.window_samples])
    assert starts == window_starts(n_samples, signal).tolist()
    for start, window in zip(starts, content, strict=True):
        assert np.array_equal(window, sound[start : start + signal.window_samples])


@given(WINDOW, HOP, st.integers(1, 5000))
def test_every_window_lies_in_the_recording_and_the_end_is_repeated_at_most_once(
    window: int, hop: int, n: int
):
    signal = small_signal(window, hop)
    hop = signal.window_hop_samples
    starts = window_starts(n, signal)
    if n <= window:
        assert starts.tolist() == [0]
        return
    regular = 1 + (n - window) // hop
    assert len(starts) in (regular, regular + 1)
    assert starts[:regular].tolist() == list(range(0, regular * hop, hop))
    assert starts[-1] + window <= n
    tail = n - (starts[regular - 1] + window)
    assert (len(starts) > regular) == (2 * tail > window)
    assert n - (starts[-1] + window) <= window / 2


def test_a_burst_at_the_very_end_is_in_exactly_one_window():
    signal = SignalConfig(2000, 200, 200, 50, 25, n_mels=8, fmin_hz=0.0)
    starts = window_starts(200 * 3 + 120, signal)
    burst = 200 * 3 + 60
    assert [start for start in starts if start <= burst < start + 200] == [520]


def test_segments_shared_by_windows_give_the_same_mel():
    signal = SignalConfig(8192, 2048, 1024, 512, 256, fmin_hz=0.0)
    log_mel = LogMel(signal)
    sound = torch.randn(2048 + 1024 * 6, generator=torch.Generator().manual_seed(1)) * 0.1
    shared = chunk_mel(Chunk(sound.numpy(), 0, 7), log_mel)
    torch.testing.assert_close(shared, log_mel(sound.unfold(0, 2048, 1024)), atol=1e-4, rtol=0)


@pytest.mark.parametrize("samples", [1, 300, 1023, 1024, 1500, 15_999])
def test_no_segment_is_padding(samples: int, write_sound):
    path = write_sound("short.wav", samples=0.1 * np.cos(np.arange(samples)))
    stream = MelStream(path, LogMel(SignalConfig()))
    (block,) = list(stream)
    assert "short" in stream.facts.flags
    assert block.mel.shape == (1, 30, 64, 1)
    loudest = block.mel[0].float().amax((1, 2))
    assert (loudest > -100).all() or samples == 1  # a lone sample lies where the Hann window is 0
    with_sound = max(1, 1 + (samples - 1024) // 512)
    for segment in range(30):
        assert torch.equal(block.mel[0, segment], block.mel[0, segment % with_sound])


def test_the_mel_of_a_stream_is_that_of_its_windows(write_sound):
    import soundfile

    path = write_sound("x.wav", seconds=11.3)
    signal = SignalConfig()
    sound = torch.from_numpy(soundfile.read(path, dtype="float32")[0])
    stream = MelStream(path, LogMel(signal))
    blocks = list(stream)
    starts = np.concatenate([block.window_start_s for block in blocks])
    assert (
        starts.tolist() == (window_starts(len(sound), signal) / 16000).astype(np.float32).tolist()
    )
    windows = torch.stack([sound[int(s * 16000) :][:16000] for s in starts])
    expected = LogMel(signal)(windows).half().float()
    torch.testing.assert_close(
        torch.cat([block.mel for block in blocks]).float(), expected, atol=0.07, rtol=0
    )


def test_a_long_recording_takes_no_more_memory_than_one_of_a_minute(tmp_path: Path, write_sound):
    import tracemalloc

    import soundfile

    def peak(minutes: int) -> int:
        path = tmp_path / f"{minutes}.wav"
        minute = (np.random.default_rng(0).standard_normal(60 * 2000) * 3000).astype(np.int16)
        with soundfile.SoundFile(path, "w", 2000, 1, "PCM_16") as file:
            for _ in range(minutes):
                file.write(minute)
        log_mel = LogMel(SMALL)
        tracemalloc.start()
        for _ in MelStream(path, log_mel):
            pass
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak_bytes

    assert peak(12) < 1.2 * peak(1)


def liveness(samples: np.ndarray, write_sound, **how: object) -> tuple[list[bool], list[str]]:
    path = write_sound("x.wav", samples=samples, **how)
    stream = MelStream(path, LogMel(SignalConfig(highpass_hz=200.0)))
    blocks = list(stream)
    return np.concatenate([block.live for block in blocks]).tolist(), stream.facts.flags


@pytest.mark.parametrize("rate_hz", [16000, 44100])
def test_dead_windows_are_marked_and_the_recording_is_flagged(rate_hz: int, write_sound):
    sound = 0.1 * np.random.default_rng(0).standard_normal(10 * rate_hz)
    one_second, stuck, gaps = sound.copy(), sound.copy(), sound.copy()
    one_second[rate_hz:] = 0
    stuck[5 * rate_hz :] = 0.3
    for start in range(0, len(gaps), rate_hz // 10):
        gaps[start : start + rate_hz // 50] = 0  # 20 ms in every 100 ms
    for samples, live, flags in [
        (sound, [True] * 19, []),
        (one_second, [True] + [False] * 18, ["dropouts"]),
        (stuck, [True] * 9 + [False] * 10, ["stuck"]),
        (gaps, [False] * 19, ["dropouts"]),
        (0 * sound, [False] * 19, ["silent"]),
        (0 * sound + 0.5, [False] * 19, ["stuck"]),
        (0 * sound[: rate_hz // 2], [False], ["short", "silent"]),
    ]:
        assert liveness(samples, write_sound, rate_hz=rate_hz) == (live, flags)
