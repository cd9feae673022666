import struct
import wave
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from leakdet.acoustics.audio import (
    ArrayRecording,
    ChannelMix,
    SoundStream,
    WaveformFacts,
    loudest_channel,
    read_header,
    recordings_in,
)
from leakdet.config import SignalConfig
from leakdet.core.errors import InputError

NOISE = (0.1 * np.random.default_rng(0).standard_normal((2, 8000))).astype(np.float32)


@pytest.mark.parametrize(
    ("left", "right", "cancels"),
    [
        (NOISE[0], -NOISE[0], True),
        (NOISE[0] + np.float32(0.5), -NOISE[0] + np.float32(0.5), True),
        (NOISE[0], NOISE[0], False),
        (NOISE[0], NOISE[1], False),
        (NOISE[0], 0 * NOISE[0], False),
        (0 * NOISE[0], 0 * NOISE[0], False),
    ],
)
def test_only_channels_in_opposite_phase_cancel(
    left: np.ndarray, right: np.ndarray, cancels: bool
) -> None:
    both = np.stack([left, right], 1)
    mix = ChannelMix(2, None)
    mono = np.concatenate([mix(both[:3000]), mix(both[3000:])])
    np.testing.assert_array_equal(mono, both.mean(axis=1))
    assert mix.cancels == cancels
    picked = ChannelMix(2, 1)
    np.testing.assert_array_equal(picked(both), right)
    assert not picked.cancels


def test_the_loudest_channel_is_that_of_the_whole_recording_without_its_offset() -> None:
    both = np.stack([0.2 * NOISE[0] + np.float32(0.9), NOISE[1]], 1)
    assert loudest_channel([both[:100], both[100:]]) == 1
    assert loudest_channel([both[:, ::-1]]) == 0
    assert loudest_channel([0 * both]) == 0


FIELD = SignalConfig()


def read(path: Path, signal: SignalConfig = FIELD) -> tuple[np.ndarray, SoundStream]:
    stream = SoundStream(path, signal)
    return np.concatenate(list(stream)), stream


def sine(seconds: float, rate_hz: int, hz: float = 440.0, amplitude: float = 0.5) -> np.ndarray:
    return amplitude * np.sin(2 * np.pi * hz * np.arange(int(seconds * rate_hz)) / rate_hz)


@pytest.mark.parametrize(
    ("subtype", "kind", "quantum"),
    [
        ("PCM_U8", "WAV", 2**-7),
        ("PCM_16", "WAV", 2**-15),
        ("PCM_24", "WAV", 2**-23),
        ("PCM_32", "WAV", 2**-24),
        ("FLOAT", "WAV", 2**-24),
        ("DOUBLE", "WAV", 2**-24),
        ("PCM_24", "WAVEX", 2**-23),
        ("PCM_16", "FLAC", 2**-15),
        ("PCM_16", "AIFF", 2**-15),
    ],
)
def test_every_bit_depth_keeps_the_level(subtype: str, kind: str, quantum: float, write_sound):
    wave = sine(1.0, 16000)
    path = write_sound(
        f"x.{'flac' if kind == 'FLAC' else 'wav'}", samples=wave, subtype=subtype, format=kind
    )
    sound, stream = read(path)
    np.testing.assert_allclose(sound, wave, atol=quantum)
    assert stream.facts.rms_dbfs == pytest.approx(-9.03, abs=0.05)


def test_a_lossy_file_is_read(write_sound):
    sound, _ = read(write_sound("x.ogg", samples=sine(2.0, 44100), rate_hz=44100))
    assert abs(len(sound) - 32000) <= 1
    assert np.sqrt(np.mean(sound**2)) == pytest.approx(0.3536, rel=0.05)


@pytest.mark.parametrize("rate_hz", [8000, 22050, 32000, 44100, 48000])
def test_another_rate_is_resampled_not_reinterpreted(rate_hz: int, write_sound):
    sound, stream = read(
        write_sound("x.wav", samples=sine(2.0, rate_hz, 1000.0), rate_hz=rate_hz, subtype="FLOAT")
    )
    assert abs(len(sound) - 32000) <= 1
    np.testing.assert_allclose(
        sound[2000:-2000], sine(2.0, 16000, 1000.0)[2000 : len(sound) - 2000], atol=1e-3
    )
    assert stream.facts.source_rate_hz == rate_hz
    assert ("narrow_band" in stream.facts.flags) == (rate_hz < 16000)


def test_what_lies_above_half_the_rate_does_not_fold_back(write_sound):
    sound, _ = read(
        write_sound("x.wav", samples=sine(2.0, 48000, 13000.0), rate_hz=48000, subtype="FLOAT")
    )
    assert np.abs(sound[2000:-2000]).max() < 1e-3


def test_channels(write_sound):
    left, right = sine(1.0, 16000), sine(1.0, 16000, 900.0)
    mono, same, both = (
        write_sound("mono.wav", samples=left, subtype="FLOAT"),
        write_sound("same.wav", samples=np.stack([left, left], 1), subtype="FLOAT"),
        write_sound("both.wav", samples=np.stack([left, right], 1), subtype="FLOAT"),
    )
    one, stream = read(mono)
    two, twin = read(same)
    assert np.array_equal(one, two)
    assert stream.facts.content_sha256 == twin.facts.content_sha256
    np.testing.assert_allclose(read(both)[0], (left + right) / 2, atol=1e-6)
    np.testing.assert_allclose(read(both, replace(FIELD, channels="first"))[0], left, atol=1e-6)


def test_the_same_sound_is_the_same_content_in_another_format(write_sound):
    samples = np.random.default_rng(0).integers(-9000, 9000, 20000).astype(np.int16)
    hashes = {
        read(write_sound(name, samples=samples, subtype="PCM_16"))[1].facts.content_sha256
        for name in ("a.wav", "b.flac", "c.aiff")
    }
    other = read(write_sound("d.wav", samples=samples[:-1], subtype="PCM_16"))[
        1
    ].facts.content_sha256
    assert len(hashes) == 1
    assert other not in hashes


@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_16_bit_sound_is_what_libsndfile_makes_of_it(suffix: str, write_sound):
    noise = np.random.default_rng(0).uniform(-1.0, 1.0, (20000, 2))
    path = write_sound(f"two.{suffix}", samples=noise, subtype="PCM_16")
    reference = soundfile.read(path, dtype="float32", always_2d=True)[0].mean(axis=1)
    np.testing.assert_array_equal(read(path)[0], reference)


def test_flags(write_sound):
    def flags(samples: np.ndarray, **how: object) -> list[str]:
        return read(write_sound("x.wav", samples=samples, **how))[1].facts.flags

    assert flags(np.clip(4 * sine(1.0, 16000), -1, 1), subtype="FLOAT") == ["clipped"]
    assert flags(20 * sine(1.0, 16000), subtype="FLOAT") == ["clipped", "over_full_scale"]
    assert flags(sine(1.0, 16000)) == []


def test_a_loud_float_file_keeps_its_values(write_sound):
    sound, stream = read(write_sound("x.wav", samples=20 * sine(1.0, 16000), subtype="FLOAT"))
    assert np.abs(sound).max() == pytest.approx(10.0, rel=1e-4)
    assert stream.facts.peak == pytest.approx(10.0, rel=1e-4)


def test_a_cut_off_file_is_read_as_far_as_it_goes_and_flagged(write_sound):
    path = write_sound("x.wav", seconds=2.0)
    path.write_bytes(path.read_bytes()[:-20000])
    sound, stream = read(path)
    assert len(sound) == 22000
    assert stream.facts.flags == ["truncated"]


def test_unreadable_files_say_why(tmp_path: Path, write_sound):
    (tmp_path / "empty.wav").touch()
    (tmp_path / "text.wav").write_text("this is no sound")
    header_only = write_sound("header.wav", samples=np.zeros(0))
    nan = sine(1.0, 16000)
    nan[12000] = np.nan
    for path, reason in [
        (tmp_path / "empty.wav", "0 bytes"),
        (tmp_path / "text.wav", "not readable as audio"),
        (header_only, "no sound"),
        (tmp_path / "absent.wav", "No such file"),
        (write_sound("nan.wav", samples=nan, subtype="FLOAT"), "NaN or infinite"),
    ]:
        with pytest.raises(InputError, match=reason):
            read(path)


def test_damage_inside_a_file_is_flagged_and_the_rest_read(write_sound):
    path = write_sound("x.flac", seconds=20.0)
    whole = bytearray(path.read_bytes())
    middle = slice(len(whole) // 2, len(whole) // 2 + 40000)
    whole[middle] = bytes(40000)
    path.write_bytes(whole)
    sound, stream = read(path)
    assert stream.facts.flags == ["damaged"]
    assert 18 * 16000 < len(sound) < 19.5 * 16000


def test_the_high_pass_is_butterworth_and_causal_whatever_the_blocks(write_sound):
    from scipy.signal import butter, sosfilt, sosfilt_zi

    sound = 0.3 + 0.1 * np.random.default_rng(0).standard_normal(16000 * 9)
    path = write_sound("x.wav", samples=sound, subtype="FLOAT")
    filtered, _ = read(path, replace(FIELD, highpass_hz=200.0))
    sections = butter(4, 200.0, "highpass", fs=16000, output="sos")
    expected, _ = sosfilt(sections, sound, zi=sosfilt_zi(sections) * sound[0])
    np.testing.assert_allclose(filtered, expected, atol=1e-5)
    assert (
        abs(filtered[:100].mean()) < 0.2
    )  # no step at the start, although the sound has an offset


def test_headers(write_sound):
    assert read_header(write_sound("x.wav", seconds=0.5, rate_hz=8000)) == (8000, 1, 0.5, 0.5)


def test_a_header_with_too_great_a_length_is_flagged(tmp_path: Path):
    samples = (3000 * np.sin(np.arange(16000))).astype("<i2").tobytes()
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        36 + 64000,
        b"WAVE",
        b"fmt ",
        16,
        1,
        1,
        16000,
        32000,
        2,
        16,
        b"data",
        64000,
    )
    path = tmp_path / "x.wav"
    path.write_bytes(head + samples)
    assert soundfile.info(path).frames == 16000
    assert read(path)[1].facts.flags == ["truncated"]


def test_channels_that_cancel_are_flagged_and_the_loudest_is_not_cancelled(write_sound):
    left = sine(9.0, 16000)
    path = write_sound("x.wav", samples=np.stack([0.5 * left, -left], 1), subtype="FLOAT")
    assert read(path)[1].facts.flags == []
    sound, stream = read(path, replace(FIELD, channels="loudest"))
    np.testing.assert_array_equal(sound, (-left).astype(np.float32))
    opposite = write_sound("y.wav", samples=np.stack([left, -left], 1), subtype="FLOAT")
    assert read(opposite)[1].facts.flags == ["channels_cancel"]
    sound, stream = read(opposite, replace(FIELD, channels="loudest"))
    assert stream.facts.flags == []
    assert stream.facts.rms_dbfs == pytest.approx(-9.03, abs=0.05)


def test_each_channel_is_a_recording_of_its_own(write_sound):
    samples = np.random.default_rng(0).uniform(-0.5, 0.5, (40000, 3)).astype(np.float32)
    path = write_sound("three.wav", samples=samples, subtype="FLOAT")
    each = replace(FIELD, channels="each")
    channels = []
    for source, channel in recordings_in(path, each):
        stream = SoundStream(source, each, channel)
        np.testing.assert_array_equal(np.concatenate([*stream]), samples[:, channel - 1])
        first = read(write_sound("one.wav", samples=samples[:, channel - 1], subtype="FLOAT"))[1]
        assert stream.facts == first.facts
        channels.append(channel)
    assert channels == [1, 2, 3]
    assert [*recordings_in(path, FIELD)] == [(path, 0)]
    for channel in (0, 4):
        with pytest.raises(InputError, match=f"it has 3 channels, and channel {channel}"):
            [*SoundStream(path, each, channel)]


def test_hum_is_measured_only_where_it_is_asked_for(write_sound) -> None:
    path = write_sound("a.wav")
    plain, measured = (SoundStream(path, SignalConfig(), with_hum=asked) for asked in (False, True))
    assert all(np.array_equal(a, b) for a, b in zip(plain, measured, strict=True))
    assert (plain.facts.mains_hum_db, len(measured.facts.mains_hum_db)) == ((), 2)


SUBTYPES = {"int16": "PCM_16", "int32": "PCM_32", "float32": "FLOAT", "float64": "DOUBLE"}


def streamed(
    source: Path | ArrayRecording, channels: str = "mean"
) -> tuple[np.ndarray, WaveformFacts]:
    stream = SoundStream(source, SignalConfig(channels=channels))
    return np.concatenate(list(stream)), stream.facts


def samples_of(dtype: str, channels: int, seconds: float = 1.3, rate_hz: int = 22050) -> np.ndarray:
    rng = np.random.default_rng(channels)
    sound = np.clip(0.3 * rng.standard_normal((int(seconds * rate_hz), channels)), -1.0, 1.0)
    if dtype.startswith("float"):
        return sound.astype(dtype)
    return (sound * np.iinfo(dtype).max).astype(dtype)


@pytest.mark.parametrize("dtype", SUBTYPES)
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("mix", ["mean", "first"])
def test_an_array_is_the_file_of_its_samples(
    dtype: str, channels: int, mix: str, tmp_path: Path
) -> None:
    samples = samples_of(dtype, channels)
    soundfile.write(tmp_path / "a.wav", samples, 22050, subtype=SUBTYPES[dtype])
    expected, facts = streamed(tmp_path / "a.wav", mix)
    sound, same_facts = streamed(ArrayRecording(samples, 22050), mix)
    np.testing.assert_array_equal(sound, expected)
    assert same_facts == facts


def test_8_bit_samples_have_silence_at_128(tmp_path: Path) -> None:
    samples = np.random.default_rng(0).integers(0, 256, 16000).astype(np.uint8)
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 1, 16000, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    expected, facts = streamed(tmp_path / "a.wav")
    sound, same_facts = streamed(ArrayRecording(samples, 16000))
    np.testing.assert_array_equal(sound, expected)
    assert same_facts == facts


def test_a_view_in_any_memory_order_is_read_as_its_values() -> None:
    samples = samples_of("float32", 2)
    expected, _ = streamed(ArrayRecording(samples, 16000))
    for same in (np.asfortranarray(samples), samples[::-1][::-1], np.repeat(samples, 2, 0)[::2]):
        np.testing.assert_array_equal(streamed(ArrayRecording(same, 16000))[0], expected)


def test_it_can_be_read_again() -> None:
    recording = ArrayRecording(samples_of("int16", 1), 16000)
    np.testing.assert_array_equal(streamed(recording)[0], streamed(recording)[0])


@pytest.mark.parametrize(
    ("samples", "rate_hz", "message"),
    [
        (np.zeros(9, np.int64), 16000, "array is of int64; allowed are float16"),
        (np.zeros(9, bool), 16000, "array is of bool"),
        (np.zeros((9, 2, 1)), 16000, r"shape \(9, 2, 1\)"),
        (np.zeros((2, 9)), 16000, "9 channels of 2 samples each; transpose"),
        (np.zeros(9), 0, "rate is 0 Hz"),
        (np.zeros(9), 44100.5, "rate is 44100.5 Hz"),
        (np.zeros(0), 16000, "array.*empty"),
        (np.zeros(9), float("nan"), "nan Hz"),
        (np.zeros(9), float("inf"), "inf Hz"),
        (np.zeros(9), "8000", "8000 Hz.*whole"),
        (np.zeros(9), None, "None Hz"),
    ],
)
def test_what_is_no_recording_is_refused(samples: np.ndarray, rate_hz: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ArrayRecording(samples, rate_hz)
