"""Files among paths, folders and globs."""

import os
from pathlib import Path

import pytest
from tests.remote_stores import FlakyStore

from leakdet.core.errors import InputError
from leakdet.scoring.listing import check_files, check_headers, list_files

NAMES = ("b.wav", "a/2.FLAC", "a/10.mp3", "a/notes.txt", "c[1].wav")
MODEL = Path("model.safetensors")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["*.wav"], ["b.wav", "c[1].wav"]),
        (["a/*"], ["a/10.mp3", "a/2.FLAC", "a/notes.txt"]),
        (["c[1].wav"], ["c[1].wav"]),
        (["b.wav", "*.wav", "b.wav"], ["b.wav", "c[1].wav"]),
        (["a", "b.wav", "a/2.FLAC"], ["a/10.mp3", "a/2.FLAC", "b.wav"]),
        (["a", "a"], ["a/10.mp3", "a/2.FLAC"]),
        (["nowhere.wav"], ["nowhere.wav"]),
    ],
)
def test_globs_match_where_no_file_has_the_name_and_each_file_comes_once(
    folder: Path, names: list[str], expected: list[str]
) -> None:
    listed = list_files(names)
    assert [str(path) for path in listed.files] == expected
    assert listed.listing.complete
    told = any("listed more than once" in line for line in listed.listing.sentences())
    assert told == (names.count("b.wav") == 2 or "a/2.FLAC" in names)


@pytest.mark.parametrize("names", [("a", "table.csv"), ("table.csv", "a")])
def test_a_table_tells_of_files_that_a_folder_gives_too(
    folder: Path, names: tuple[str, str]
) -> None:
    (folder / "table.csv").write_text("path,site\na/2.FLAC,7\n")
    told = {str(one.source): one.columns["site"] for one in list_files(names).recordings}
    assert told == {"a/10.mp3": "", "a/2.FLAC": "7"}


def test_a_table_without_a_recording_says_why(folder: Path) -> None:
    (folder / "table.csv").write_text("path,site\nb.wav,7,8\n")
    with pytest.raises(
        InputError, match=r"in table\.csv; left out 1 line .*it has 3 fields, not 2"
    ):
        list_files(["table.csv"])


def test_names_that_give_nothing_are_told(folder: Path) -> None:
    (folder / "empty").mkdir()
    listed = list_files(["*.wav", "none*.wav", "c[2].wav", "empty"])
    assert len(listed.files) == 2
    assert listed.listing.sentences() == [
        f"left out {name}: no audio there" for name in ("none*.wav", "c[2].wav", "empty")
    ]
    assert not listed.listing.complete
    (folder / "empty/call.m4a").touch()
    with pytest.raises(InputError, match=r"no audio .*empty; left out 1 file .*\.m4a"):
        list_files(["empty"])


def test_kinds_that_cannot_be_read_make_the_list_incomplete(folder: Path) -> None:
    (folder / "a/call.m4a").touch()
    listed = list_files(["a"])
    assert len(listed.files) == 2
    assert not listed.listing.complete


def test_a_file_that_is_no_sound_is_named_with_its_option(write_sound, tmp_path: Path) -> None:
    sound, text = write_sound("a.wav", seconds=0.1), tmp_path / "notes.wav"
    assert check_headers([str(sound), str(tmp_path)], "--check") == [sound]
    text.write_text("no sound")
    for file, why in ((text, "not readable as audio: .*"), (tmp_path / "none", ".*No such file.*")):
        with pytest.raises(InputError, match=rf"^--check {file}: {why}\.$"):
            check_headers([str(sound), str(file)], "--check")


@pytest.mark.parametrize("suffix", [".safetensors", ".onnx", ".ckpt", ".pth", ".pt", ".PT"])
def test_a_second_model_is_no_recording(suffix: str) -> None:
    with pytest.raises(InputError, match=rf"takes one model.*b/best\{suffix}.*runs/train/latest"):
        check_files([Path(f"b/best{suffix}"), Path("b.wav")], Path("a/model.safetensors"), None)


def test_a_second_run_folder_is_no_folder_of_recordings(folder: Path) -> None:
    (folder / "runs/second").mkdir(parents=True)
    (folder / "runs/second/model.safetensors").touch()
    for names in (["b.wav", "runs/second"], ["runs/second"], ["runs/*"], ["runs"]):
        with pytest.raises(InputError, match=r"models.*: runs[/.]"):
            list_files(names)


def test_an_output_is_never_an_input(folder: Path) -> None:
    MODEL.touch()
    (folder / "link.csv").symlink_to(folder / "b.wav")
    files = list_files(["*.wav"]).files
    for out, reason in (
        ("b.wav", "one of the recordings"),
        ("link.csv", "one of the recordings"),
        ("model.safetensors", "this is the model"),
        ("a", "this is a folder"),
    ):
        with pytest.raises(InputError, match=reason):
            check_files(files, MODEL, Path(out))
    check_files(files, MODEL, Path("new.csv"))


def test_an_output_may_be_a_device_or_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for out in (folder / "pipe", Path(os.devnull)):
        check_files([Path("b.wav")], MODEL, out)


def test_a_bucket_that_gives_nothing_is_refused_before_any_work(
    folder: Path, flaky: type[FlakyStore]
) -> None:
    Path("list.csv").write_text("path\nflaky://net/a.wav\nflaky://net/b.wav\n")
    flaky.failures[:] = [PermissionError("Access Denied")] * 2
    with pytest.raises(InputError, match=r"^flaky://net/a.wav: access is forbidden"):
        list_files(["list.csv"])
