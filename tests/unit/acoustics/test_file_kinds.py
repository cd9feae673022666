"""Kinds of files, by name and, without a suffix, by their first bytes."""

from pathlib import Path

import pytest

from leakdet.acoustics.file_kinds import is_audio_name, is_hidden, kind_of_other


def test_names_of_audio_and_hidden_names() -> None:
    for name in ("a.WAV", "b.wav", "c.Flac", "d.OGG", "e.wav "):
        assert is_audio_name(Path(name)), name
    assert not any(is_audio_name(Path(name)) for name in ("notes.txt", "wav", "a.wav.part"))
    assert [is_hidden(name) for name in ("._a.wav", "a.wav")] == [True, False]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.M4A", ("unreadable", ".m4a")),
        ("a.zip", ("packed", ".zip")),
        ("a.wav.gz", ("packed", ".gz")),
        ("a.part", ("unfinished", ".part")),
        ("a.flac.1", ("unfinished", ".1")),
        ("a.wav.tmp", ("unfinished", ".tmp")),
        ("a.wav.json", (None, ".json")),
        ("a.tmp", (None, ".tmp")),
        ("a.txt", (None, ".txt")),
        ("README", (None, "without suffix")),
    ],
)
def test_what_other_names_are(name: str, kind: tuple[str | None, str]) -> None:
    assert kind_of_other(Path(name)) == kind


@pytest.mark.parametrize(
    "head", [b"RIFF", b"fLaC", b"OggS", b"FORM", b"ID3\4", b"\xff\xfb\x90\xc4"]
)
def test_a_file_without_a_suffix_is_known_by_its_first_bytes(head: bytes, tmp_path: Path) -> None:
    path = tmp_path / "REC0001"
    path.write_bytes(head + bytes(40))
    assert kind_of_other(path) == ("nameless", "without suffix")
    path.write_bytes(b"text")
    assert kind_of_other(path) == (None, "without suffix")
