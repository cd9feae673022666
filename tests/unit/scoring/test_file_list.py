"""Files among paths, folders and globs."""

from pathlib import Path

import pytest

from leakdet.errors import InputError
from leakdet.scoring.file_list import audio_files, checked_files, named_files

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


def test_hidden_files_and_folders_are_no_recordings(folder: Path) -> None:
    for name in ("._b.wav", ".Trash-1000/old.wav", "__MACOSX/b.wav"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    names = {str(path.relative_to(folder)) for path in audio_files(folder)}
    assert names == {"b.wav", "c[1].wav", "a/10.mp3", "a/2.FLAC"}
    assert list(audio_files(folder / "._b.wav")) == [folder / "._b.wav"]


def test_names_that_give_nothing_are_told(folder: Path) -> None:
    model = folder / "model.safetensors"
    (folder / "empty").mkdir()
    names = ["*.wav", "none*.wav", "c[2].wav", "empty"]
    assert checked_files(names, model, None) == (2, ["none*.wav", "c[2].wav", "empty"])
    with pytest.raises(InputError, match="no audio found in empty"):
        checked_files(["empty"], model, None)


def test_a_second_model_is_no_recording(folder: Path) -> None:
    with pytest.raises(
        InputError, match=r"takes one model.*b/model\.safetensors.*runs/train/latest"
    ):
        checked_files(["b/model.safetensors", "b.wav"], Path("a/model.safetensors"), None)


def test_an_output_is_never_an_input(folder: Path) -> None:
    model = folder / "model.safetensors"
    model.touch()
    (folder / "link.csv").symlink_to(folder / "b.wav")
    for out, reason in (
        ("b.wav", "one of the recordings"),
        ("link.csv", "one of the recordings"),
        ("model.safetensors", "this is the model"),
        ("a", "this is a folder"),
    ):
        with pytest.raises(InputError, match=reason):
            checked_files(["*.wav"], model, Path(out))
    assert checked_files(["*.wav"], model, Path("new.csv")) == (2, [])
