from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from tests.conftest import says

from leakdet.building.builder import build_store
from leakdet.building.scan import build_bytes, recording_bytes, scan_headers
from leakdet.building.sources import LeftOut, Source, SourceRecording
from leakdet.config import BuildConfig, DemoConfig, SignalConfig
from leakdet.core.errors import InputError, SettingsError


def source_of(*paths: Path) -> Source:
    recordings = [SourceRecording(path.name, path, "LEAK") for path in paths]
    return Source(recordings, [LeftOut("stray.wav", "not in a label folder")])


def scan(source: Source, **signal: object):
    return scan_headers(source, BuildConfig("audio", "store", SignalConfig(**signal)))


def test_what_is_no_audio_or_listed_twice_is_left_out(tmp_path: Path, write_sound):
    sound, text = write_sound("a.wav"), tmp_path / "text.wav"
    text.write_text("no sound")
    result = scan(source_of(sound, text, sound))
    assert [recording.path for recording in result.readable] == [sound]
    assert [item.path for item in result.left_out] == ["stray.wav", "text.wav", "a.wav"]
    reasons = ("^not in a label folder$", "^not readable", "twice")
    assert says([item.reason for item in result.left_out], *reasons)


def test_a_source_without_audio_is_refused(tmp_path: Path):
    (tmp_path / "empty.wav").touch()
    with pytest.raises(InputError, match=r"^audio: none of 1 files .*first: "):
        scan(Source([SourceRecording("empty.wav", tmp_path / "empty.wav", "LEAK")], []))


@pytest.mark.parametrize(
    ("rates_hz", "fmax_hz", "remark"),
    [
        (
            [16000, 48000],
            8000.0,
            r"8000 Hz .*\(half of the 16 kHz .*resampled",
        ),
        (
            [48000, 4000, 48000],
            2000.0,
            r"2000 Hz .*\(half of 4 kHz, .* 1 of 3 recordings: 1\.wav\)",
        ),
    ],
)
def test_auto_becomes_what_every_recording_has(
    rates_hz: list[int], fmax_hz: float, remark: str, write_sound
):
    paths = [write_sound(f"{n}.wav", 0.1, rate_hz) for n, rate_hz in enumerate(rates_hz)]
    result = scan(source_of(*paths))
    assert result.signal.fmax_hz == fmax_hz
    assert says(result.remarks, remark)


def test_a_given_fmax_stays(write_sound):
    result = scan(source_of(write_sound("a.wav", 0.1, 1500)), fmax_hz=6000)
    assert (result.signal.fmax_hz, result.remarks) == (6000.0, [])


def test_a_rate_too_low_for_any_mel_stops_and_changes_none_of_the_others(write_sound):
    paths = [write_sound(f"{rate}.wav", 0.5, rate) for rate in (16000, 500, 1000)]
    result = scan(source_of(*paths))
    assert [item.recording_id for item in result.readable] == ["16000.wav"]
    assert result.signal.fmax_hz == 8000
    assert [item.path for item in result.left_out[1:]] == ["500.wav", "1000.wav"]
    reasons = ("500 Hz is too low .*64 mel", "1000 Hz is too low .*64 mel")
    assert says([item.reason for item in result.left_out[1:]], *reasons)


def test_where_every_rate_is_too_low_the_settings_are_at_fault(write_sound):
    with pytest.raises(SettingsError, match="fmin_hz"):
        scan(source_of(write_sound("a.wav", 0.5, 500)))


def test_each_channel_is_a_recording_that_knows_its_file(tmp_path: Path, write_sound):
    both = write_sound("both.wav", samples=np.zeros((1600, 2)))
    source = source_of(both, write_sound("mono.wav"))
    only = [replace(source.recordings[0], channel=channel) for channel in (2, 3)]
    assert [item.channel for item in scan(source).readable] == [0, 0]
    readable = scan(source, channels="each").readable
    assert [(r.recording_id, r.channel, r.groups["source_file"]) for r in readable] == [
        ("both.wav#channel1", 1, "both.wav"),
        ("both.wav#channel2", 2, "both.wav"),
        ("mono.wav", 1, "mono.wav"),
    ]
    asked = scan(Source(only, []), channels="each")
    assert [item.recording_id for item in asked.readable] == ["both.wav#channel2"]
    (reason,) = [item.reason for item in asked.left_out]
    assert "channel 3" in reason


SIGNAL = SignalConfig(fmax_hz=8000.0)


@pytest.mark.parametrize("waveform", ["none", "int16"])
def test_a_recording_takes_about_as_much_as_is_estimated(tmp_path: Path, waveform: str) -> None:
    demo = DemoConfig(sites=5, recordings_per_site=2, duration_s=3.0)
    config = BuildConfig(source="demo", out=str(tmp_path / "s"), demo=demo, waveform=waveform)
    build_store(config)
    stored = estimated = 0
    for path in (tmp_path / "s").glob("*.h5"):
        with h5py.File(path) as file:
            stored += file["mel"].nbytes + (file["waveform"].nbytes if "waveform" in file else 0)
            lengths_s = file["duration_s"][...].tolist()
        estimated += sum(recording_bytes(length_s, SIGNAL, waveform) for length_s in lengths_s)
    assert estimated == pytest.approx(stored, rel=0.1)


def test_at_most_the_spools_and_the_largest_split_lie_side_by_side() -> None:
    def recording(name: str, label: str) -> SourceRecording:
        return SourceRecording(name, Path(name), label)

    assigned = [
        (recording("a", "leak"), "train"),
        (recording("b", "none"), "train"),
        (recording("c", "none"), "test"),
    ]
    about_s = dict.fromkeys(map(Path, "abc"), 2.0)
    config = BuildConfig(source="x", out="y")
    one = recording_bytes(2.0, SIGNAL, "none")
    assert build_bytes(assigned, about_s, SIGNAL, config) == 5 * one
