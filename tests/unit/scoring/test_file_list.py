"""Files among paths, folders and globs."""

from pathlib import Path

import pytest

from leakdet.scoring.file_list import audio_files, named_files

NAMES = ("b.wav", "a/2.FLAC", "a/10.mp3", "a/notes.txt", "c[1].wav")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_gives_the_audio_below_it_in_the_order_of_names(folder: Path) -> None:
    assert [str(path.relative_to(folder)) for path in audio_files(folder)] == [
        "b.wav", "c[1].wav", "a/10.mp3", "a/2.FLAC",
    ]  # fmt: skip


def test_a_path_is_itself_whatever_its_name_and_whether_it_exists(folder: Path) -> None:
    for path in (Path("a/notes.txt"), Path("nowhere.wav")):
        assert list(audio_files(path)) == [path]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["*.wav"], ["b.wav", "c[1].wav"]),
        (["a/*"], ["a/10.mp3", "a/2.FLAC", "a/notes.txt"]),
        (["c[1].wav"], ["c[1].wav"]),
        (["c[2].wav"], []),
        (["b.wav", "*.wav", "b.wav"], ["b.wav", "c[1].wav"]),
        (["a", "b.wav", "a/2.FLAC"], ["a/10.mp3", "a/2.FLAC", "b.wav"]),
    ],
)
def test_globs_match_where_no_file_has_the_name_and_each_file_comes_once(
    folder: Path, names: list[str], expected: list[str]
) -> None:
    assert [str(path) for path in named_files(names)] == expected
