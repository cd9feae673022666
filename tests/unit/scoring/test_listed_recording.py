"""Recordings that names stand for, as a stream."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leakdet.scoring.listed_recording import ListedRecording, list_recordings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("b.wav", "a/2.flac", "a/10.wav", "a/notes.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_recordings_come_in_the_order_of_names_and_may_be_listed_again() -> None:
    listing = list_recordings(["a", "*.wav", "b.wav", "none"])
    expected = [Path(name) for name in ("a/10.wav", "a/2.flac", "b.wav", "b.wav", "none")]
    for _ in range(2):
        assert [listed.source for listed in listing] == expected
        assert listing.complete
        assert listing.sentences() == ["files without sound skipped: 1 .md"]


def test_nothing_is_listed_ahead_of_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def endless(path: Path, _: object) -> Iterator[Path]:
        for number in range(1_000_000):
            asked.append(number)
            yield path / f"{number}.wav"

    monkeypatch.setattr("leakdet.scoring.listed_recording.audio_files", endless)
    assert next(iter(list_recordings(["a"]))) == ListedRecording(Path("a/0.wav"))
    assert asked == [0]
