import os
from pathlib import Path

import fsspec
import pytest
from tests.conftest import says
from tests.remote_stores import FlakyStore

from leakdet.acoustics.listing import (
    LeftUnlisted,
    audio_files,
    is_audio_name,
    is_hidden,
    kind_of_other,
)
from leakdet.core.errors import InputError
from leakdet.core.locations import RemoteFile


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


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def listed(folder: Path, unlisted: LeftUnlisted | None = None) -> list[str]:
    files = audio_files(folder, LeftUnlisted() if unlisted is None else unlisted)
    return [path.relative_to(folder).as_posix() for path in files]


def test_a_folder_gives_the_audio_below_it_in_the_order_of_names(tmp_path: Path) -> None:
    touch(tmp_path, "b.wav", "a/2.FLAC", "a/10.mp3", "a/notes.txt", "c[1].wav")
    assert listed(tmp_path) == ["b.wav", "c[1].wav", "a/10.mp3", "a/2.FLAC"]


def test_a_path_is_itself_whatever_its_name_and_whether_it_exists(tmp_path: Path) -> None:
    touch(tmp_path, "notes.txt")
    for path in (tmp_path / "notes.txt", tmp_path / "nowhere.wav"):
        assert list(audio_files(path, LeftUnlisted())) == [path]


def test_hidden_names_are_counted(tmp_path: Path) -> None:
    touch(tmp_path, "b.wav", "._b.wav", ".Trash-1000/old.wav", "__MACOSX/b.wav")
    unlisted = LeftUnlisted()
    assert listed(tmp_path, unlisted) == ["b.wav"]
    assert says(unlisted.sentences(), "^hidden .*: 3$")
    assert not unlisted.lost
    assert listed(tmp_path / ".Trash-1000") == ["old.wav"]  # named by the user


def test_kinds_of_sound_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "b.m4a", "deep/c.M4A", "d.amr", "e.txt", "f.pdf", "g.TXT", "README")
    unlisted = LeftUnlisted()
    assert listed(tmp_path, unlisted) == ["a.wav"]
    assert says(
        unlisted.sentences(),
        r"^left out 3 files .*\(2 \.m4a, 1 \.amr\): .*WAV",
        r"without sound .*: 2 \.txt, 1 \.pdf, 1 without suffix$",
    )
    assert unlisted.lost


def test_sound_that_is_packed_unfinished_or_without_a_suffix_is_counted(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "b.wav ", "c.wav.part", "d.wav.bak", "e.tar.gz", "f.WAV.gz", "notes")
    (tmp_path / "REC0001").write_bytes(b"RIFF\0\0\0\0WAVE")
    unlisted = LeftUnlisted()
    assert listed(tmp_path, unlisted) == ["a.wav", "b.wav "]
    assert says(
        unlisted.sentences(),
        r"^left out 2 files .*\(2 \.gz\): unpack",
        r"^left out 2 files .*\(1 \.bak, 1 \.part\): rename",
        r"^left out 1 file .*\(1 without suffix\): .*\.wav",
        r"without sound .*: 1 without suffix$",
    )
    assert unlisted.lost


def test_many_suffixes_are_not_all_named(tmp_path: Path) -> None:
    touch(tmp_path, *(f"a.x{number}" for number in range(12)))
    unlisted = LeftUnlisted()
    assert not listed(tmp_path, unlisted)
    assert unlisted.notes()[0].endswith("1 .x5, 4 others")
    assert not unlisted.lost


def test_links_are_followed_once_and_circles_end(tmp_path: Path) -> None:
    touch(tmp_path, "nas/x.wav", "in/a/1.wav")
    (tmp_path / "in/b").symlink_to(tmp_path / "nas")
    (tmp_path / "in/c").symlink_to(tmp_path / "nas")
    (tmp_path / "in/a/up").symlink_to(tmp_path / "in")
    (tmp_path / "in/z.wav").symlink_to(tmp_path / "nas/x.wav")
    unlisted = LeftUnlisted()
    assert listed(tmp_path / "in", unlisted) == ["z.wav", "a/1.wav", "b/x.wav"]
    assert says(unlisted.sentences(), f"^folders .*: {tmp_path}/in/a/up, {tmp_path}/in/c$")
    assert not unlisted.lost


def test_a_folder_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path, "a.wav", "gone/b.wav")
    scandir = os.scandir

    def refuse(path: str):  # as a folder that may not be read does, also for root
        if str(path).endswith("gone"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    unlisted = LeftUnlisted()
    assert listed(tmp_path, unlisted) == ["a.wav"]
    assert unlisted.unreadable == [(f"{tmp_path}/gone", "Permission denied")]
    assert unlisted.lost


def test_names_in_any_bytes(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.wav")
    touch(tmp_path, name)
    assert listed(tmp_path) == [name]


def test_links_that_lead_nowhere_and_pipes_in_a_folder_are_named(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav")
    (tmp_path / "station3").symlink_to("/nonexistent/disk")
    (tmp_path / "gone.wav").symlink_to("/nonexistent/gone.wav")  # a row that says so
    os.mkfifo(tmp_path / "p.wav")  # opening it would wait for a writer
    unlisted = LeftUnlisted()
    assert listed(tmp_path, unlisted) == ["a.wav", "gone.wav"]
    pipe, link = (
        f"^left out {tmp_path}/p.wav: .*pipe",
        f"^left out {tmp_path}/station3: .*link .*No such",
    )
    assert says(sorted(unlisted.sentences()), pipe, link)
    assert unlisted.lost
    assert list(audio_files(tmp_path / "p.wav", LeftUnlisted())) == [tmp_path / "p.wav"]


def test_files_below_a_url_are_told_apart_as_local_ones_are(flaky: type[FlakyStore]) -> None:
    store = fsspec.filesystem("flaky")
    names = ("b.wav", "a/2.FLAC", ".trash/c.wav", "a/film.mp4", "notes.txt", "named", "x.wav.bak")
    for name in names:
        store.pipe_file(f"/net/night/{name}", b"RIFF....WAVE" if name == "named" else b"")
    unlisted = LeftUnlisted()
    files = list(audio_files(RemoteFile("flaky://net/night"), unlisted))
    assert [str(file) for file in files] == [
        "flaky://net/night/a/2.FLAC", "flaky://net/night/b.wav",
    ]  # fmt: skip
    assert unlisted.hidden == 1
    assert unlisted.kinds == {
        ("unreadable", ".mp4"): 1, ("nameless", "without suffix"): 1, ("unfinished", ".bak"): 1,
    }  # fmt: skip
    assert unlisted.others == {".txt": 1}


def test_a_url_with_a_name_of_sound_is_not_asked_for(flaky: type[FlakyStore]) -> None:
    file = RemoteFile("flaky://net/missing.wav")
    assert list(audio_files(file, LeftUnlisted())) == [file]
    assert flaky.requests.total() == 0
    fsspec.filesystem("flaky").pipe_file("/net/sound", b"RIFF")
    assert list(audio_files(RemoteFile("flaky://net/sound"), LeftUnlisted())) == [
        RemoteFile("flaky://net/sound")
    ]
    with pytest.raises(InputError, match=r"flaky://net/none: .*no such"):
        list(audio_files(RemoteFile("flaky://net/none"), LeftUnlisted()))
