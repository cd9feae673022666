import io
import os
import shutil
import subprocess
import threading
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from leakdet.acoustics.containers.mp3 import parse_frame
from leakdet.acoustics.containers.sound_file import SoundFile, native_stderr_hidden, stream_layout
from leakdet.acoustics.containers.source import ByteSource
from leakdet.core.errors import InputError
from leakdet.core.locations import Span

CODINGS = (
    ("WAV", "PCM_16"), ("WAV", "FLOAT"), ("WAV", "ULAW"), ("RF64", "PCM_24"), ("AIFF", "PCM_16"),
    ("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III"), ("WAV", "IMA_ADPCM"),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(CODINGS), st.integers(0, 15_000), st.integers(160, 9000), st.integers(1, 2))
def test_seconds_of_a_file_are_those_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    coding: tuple[str, str],
    start: int,
    length: int,
    channels: int,
) -> None:
    path = tmp_path_factory.getbasetemp() / f"{'-'.join(coding)}-{channels}"
    if not path.exists():
        sound = 0.1 * np.random.default_rng(1).standard_normal((24_000, channels))
        soundfile.write(path, sound, 16_000, coding[1], format=coding[0])
    with SoundFile(path) as file:
        whole = np.concatenate(blocks(file))
    span = Span(start / 16_000, (start + length) / 16_000)
    with SoundFile(path, span) as file:
        first = blocks(file)
        file.rewind()
        for read in (first, blocks(file)):
            np.testing.assert_array_equal(np.concatenate(read), whole[start : start + length])
        assert file.flags() == []


def blocks(file: SoundFile) -> list[np.ndarray]:
    return list(takewhile(len, (file.read(5000) for _ in count())))


@pytest.mark.parametrize("kind", ["WAV", "FLAC"])
def test_seconds_beyond_the_end_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    soundfile.write(path, np.full(8000, 0.1), 16_000, format=kind)
    for span in (Span(0.4, 0.6), Span(2.0, 3.0)):
        with (
            pytest.raises(InputError, match=r"ends at 0\.5 s, before the end of"),
            SoundFile(path, span) as file,
        ):
            blocks(file)
    with SoundFile(path, Span(0.4, 0.505)) as file:  # a table may round
        assert sum(map(len, blocks(file))) == 1600


def test_what_c_code_writes_is_hidden_until_the_last_thread_is_done(
    capfd: pytest.CaptureFixture[str],
) -> None:
    inside, release = threading.Event(), threading.Event()

    def hold() -> None:
        with native_stderr_hidden():
            inside.set()
            release.wait(10)

    os.write(2, b"before ")
    thread = threading.Thread(target=hold)
    with native_stderr_hidden():
        thread.start()
        inside.wait(10)
        os.write(2, b"hidden ")
    os.write(2, b"hidden too ")
    release.set()
    thread.join()
    os.write(2, b"after")
    assert capfd.readouterr().err == "before after"


STREAM_SOUND = 0.1 * np.random.default_rng(0).standard_normal(32000)


@pytest.mark.parametrize(
    ("kind", "name"), [("FLAC", "flac"), ("OGG", "ogg"), ("MP3", "mp3"), ("WAV", "other")]
)
def test_the_kind_is_seen_by_content(kind: str, name: str, tmp_path: Path) -> None:
    file = io.BytesIO()
    soundfile.write(file, STREAM_SOUND, 16000, format=kind)
    (tmp_path / "x").write_bytes(file.getvalue())
    assert stream_layout(ByteSource(os.open(tmp_path / "x", os.O_RDONLY)))[2] == name


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")
def test_flac_in_ogg_is_unwrapped(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "x.wav", STREAM_SOUND, 16000)
    command = ["ffmpeg", "-loglevel", "error", "-i", "x.wav", "-c:a", "flac", "-f", "ogg", "x.oga"]
    subprocess.run(command, cwd=tmp_path, check=True)
    content = (tmp_path / "x.oga").read_bytes()
    expected = soundfile.read(tmp_path / "x.wav", dtype="float32")[0]
    for copies, size, flags in [(1, None, []), (2, None, []), (1, 30000, ["truncated"])]:
        (tmp_path / "y.oga").write_bytes((content * copies)[:size])
        with SoundFile(tmp_path / "y.oga") as file:
            blocks = []
            while len(block := file.read(10000)):
                blocks.append(block[:, 0])
            assert file.flags() == flags
        sound = np.concatenate(blocks)
        assert len(sound) > 8000
        np.testing.assert_array_equal(sound[: len(expected)], expected[: len(sound)])
        assert size or len(sound) == copies * len(expected)


SOUND = (0.1 * np.random.default_rng(0).standard_normal(64000)).astype(np.float32)
STREAMS = {  # what an encoder may leave out at the ends, in sample points
    ("FLAC", "PCM_16"): 0,
    ("OGG", "VORBIS"): 0,
    ("OGG", "OPUS"): 0,
    ("MP3", "MPEG_LAYER_III"): 3 * 1152,
}
PLAIN = [
    (kind, subtype)
    for kind in ("WAV", "WAVEX", "RF64", "W64", "AIFF", "AU", "CAF", "NIST")
    for subtype in ("PCM_16", "PCM_24", "FLOAT", "ULAW")
    if soundfile.check_format(kind, subtype)
]
KINDS = [*STREAMS, *PLAIN, ("WAV", "IMA_ADPCM"), ("WAV", "MS_ADPCM"), ("CAF", "ALAC_16")]


def encoded(kind: str, subtype: str, rate_hz: int = 16000, **how: Any) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, SOUND, rate_hz, format=kind, subtype=subtype, **how)
    return file.getvalue()


def read(content: bytes, folder: Path) -> tuple[np.ndarray, list[str]]:
    path = folder / "sound"
    path.write_bytes(content)
    with SoundFile(path) as file:
        blocks = []
        while len(block := file.read(30000)):
            blocks.append(block[:, 0])
        return np.concatenate(blocks), file.flags()


@pytest.mark.parametrize(("kind", "subtype"), KINDS)
def test_a_whole_file_is_what_libsndfile_reads(kind: str, subtype: str, tmp_path: Path) -> None:
    content = encoded(kind, subtype)
    sound, flags = read(content, tmp_path)
    expected, _ = soundfile.read(io.BytesIO(content), dtype="float32")
    np.testing.assert_allclose(sound, expected, atol=1e-6 if kind == "MP3" else 0)
    assert flags == []


@pytest.mark.parametrize(("kind", "subtype"), KINDS)
def test_a_cut_file_is_read_as_far_as_it_goes(kind: str, subtype: str, tmp_path: Path) -> None:
    content = encoded(kind, subtype)
    whole, _ = read(content, tmp_path)
    sound, flags = read(content[: len(content) // 2], tmp_path)
    assert flags == ["truncated"]
    least = 0.2 if kind == "OGG" else 0.4  # a page that is not whole cannot be decoded
    assert least * len(whole) < len(sound) < 0.6 * len(whole)
    # the end of a cut lossy stream is decoded without what would follow
    np.testing.assert_allclose(sound[:12000], whole[:12000], atol=1e-6)


@pytest.mark.parametrize(("kind", "subtype"), STREAMS)
def test_streams_in_a_row_are_read_on(kind: str, subtype: str, tmp_path: Path) -> None:
    content = encoded(kind, subtype)
    whole, _ = read(content, tmp_path)
    sound, flags = read(content * 3, tmp_path)
    assert (len(sound), flags) == (3 * len(whole), [])
    np.testing.assert_allclose(sound[-len(whole) :], whole, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "subtype"), [kind for kind in KINDS if kind[1] in ("PCM_16", "ALAC_16")][1:]
)
def test_of_uncompressed_files_in_a_row_the_first_is_read_and_the_rest_flagged(
    kind: str, subtype: str, tmp_path: Path
) -> None:
    content = encoded(kind, subtype)
    sound, flags = read(content * 2, tmp_path)
    assert (len(sound), flags) == (len(SOUND), ["several_streams"])


@pytest.mark.parametrize(("kind", "subtype"), STREAMS)
def test_streams_of_other_rates_are_refused(kind: str, subtype: str, tmp_path: Path) -> None:
    content = encoded(kind, subtype) + encoded(kind, subtype, 8000)
    if subtype == "OPUS":  # the rate that it was made at is a remark only
        return
    with pytest.raises(InputError, match=r"stream 2 .*8000 Hz"):
        read(content, tmp_path)


@pytest.mark.parametrize(("kind", "subtype"), STREAMS)
def test_damage_in_the_middle_is_flagged_and_the_rest_read(
    kind: str, subtype: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = bytearray(encoded(kind, subtype))
    whole, _ = read(bytes(content), tmp_path)
    middle = len(content) // 2
    content[middle : middle + 3000] = np.random.default_rng(1).bytes(3000)
    sound, flags = read(bytes(content), tmp_path)
    assert flags == ["damaged"]
    assert 0.5 * len(whole) < len(sound) < len(whole)
    if kind == "FLAC":
        np.testing.assert_array_equal(sound[-9000:], whole[-9000:])
    assert capfd.readouterr().err == ""


def test_a_flac_stream_without_a_total_is_read_to_its_end(tmp_path: Path) -> None:
    content = bytearray(encoded("FLAC", "PCM_16"))
    content[21] &= 0xF0
    content[22:26] = bytes(4)
    sound, flags = read(bytes(content), tmp_path)
    assert (len(sound), flags) == (len(SOUND), [])
    assert read(bytes(content[:-5000]), tmp_path)[1] == ["truncated"]
    assert len(read(bytes(content) * 2, tmp_path)[0]) == 2 * len(SOUND)


@pytest.mark.parametrize("mode", ["CONSTANT", "VARIABLE"])
@pytest.mark.parametrize("rate_hz", [44100, 16000, 8000])
def test_an_mp3_without_a_count_is_read_to_its_end(mode: str, rate_hz: int, tmp_path: Path) -> None:
    quiet_first = {"bitrate_mode": mode, "compression_level": 0.5}
    content = encoded("MP3", "MPEG_LAYER_III", rate_hz, **quiet_first)
    first = parse_frame(content[:4])
    assert first
    sound, flags = read(content[first.size :], tmp_path)
    assert flags == []
    assert abs(len(sound) - len(SOUND)) <= 3 * 1152


def test_bits_that_flip_in_an_mp3_put_nothing_on_the_screen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = bytearray(encoded("MP3", "MPEG_LAYER_III"))
    for place in np.random.default_rng(0).integers(500, len(content), 100):
        content[place] ^= 16
    read(bytes(content), tmp_path)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("rate_hz", [1, 99, 2_000_000_000, 2**31 - 1])
def test_a_rate_that_no_sensor_has_is_refused_before_anything_is_decoded(
    rate_hz: int, tmp_path: Path
) -> None:
    content = bytearray(encoded("WAV", "PCM_16"))
    content[24:28] = rate_hz.to_bytes(4, "little")
    with pytest.raises(InputError, match=rf"header .*{rate_hz} Hz.* 100 to"):
        read(bytes(content), tmp_path)


def test_a_block_is_bounded_whatever_a_header_says(tmp_path: Path) -> None:
    content = bytearray(encoded("WAV", "PCM_16"))
    content[22:24] = (1024).to_bytes(2, "little")
    content[24:28] = (10_000_000).to_bytes(4, "little")
    (tmp_path / "x").write_bytes(content)
    with SoundFile(tmp_path / "x") as file:
        assert (file.channels, file.samplerate) == (1024, 10_000_000)
        assert file.read(1 << 60).shape == (len(SOUND) // 1024, 1024)


def test_a_total_that_the_file_cannot_hold_is_no_estimate(tmp_path: Path) -> None:
    content = bytearray(encoded("FLAC", "PCM_16"))
    content[21:26] = bytes([content[21] | 15, 255, 255, 255, 255])
    (tmp_path / "x").write_bytes(content)
    with SoundFile(tmp_path / "x") as file:
        assert len(SOUND) // 2 < file.about_frames() < 2 * len(SOUND)


def test_mutated_files_end_in_sound_or_a_sentence(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for kind, subtype in KINDS:
        content = encoded(kind, subtype)[:20000]
        for _ in range(8):
            mutated = bytearray(content)
            for place in rng.integers(0, min(len(content), 400), 3):
                mutated[place] = rng.integers(256)
            try:
                sound, _ = read(bytes(mutated), tmp_path)
                assert sound.ndim == 1
            except InputError:
                pass
