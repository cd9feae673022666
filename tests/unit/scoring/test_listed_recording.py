"""Recordings that names stand for, as a stream."""

import re
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from tests.conftest import says
from tests.remote_stores import FlakyStore

from leakdet.core.errors import InputError, SettingsError
from leakdet.core.locations import RemoteFile
from leakdet.scoring.listing import list_recordings
from leakdet.tables.schema import InputRecording


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
        assert says(listing.sentences(), r"without sound .*: 1 \.md$")


def test_nothing_is_listed_ahead_of_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def endless(path: Path, _: object) -> Iterator[Path]:
        for number in range(1_000_000):
            asked.append(number)
            yield path / f"{number}.wav"

    monkeypatch.setattr("leakdet.scoring.listing.audio_files", endless)
    assert next(iter(list_recordings(["a"]))) == InputRecording(Path("a/0.wav"))
    assert asked == [0]


def test_a_table_and_a_pattern_fill_the_columns_of_every_recording() -> None:
    Path("night.csv").write_text("path,site,pipe\na/10.wav,mill,PVC\nb.wav,,\n")
    listing = list_recordings(["night.csv", "a"], "{site}")
    assert listing.columns == ("site", "pipe")
    assert [(str(listed.source), *listed.columns.values()) for listed in listing] == [
        ("a/10.wav", "mill", "PVC"),
        ("b.wav", "b", ""),
        ("a/10.wav", "10", ""),
        ("a/2.flac", "2", ""),
    ]
    assert listing.complete
    assert re.search(r"table was believed: 1 \(a/10\.wav\)$", listing.sentences()[-1])


def test_names_that_a_pattern_does_not_match_are_counted_and_all_of_them_refused() -> None:
    listing = list_recordings(["a", "b.wav"], "{site}0")
    assert [listed.columns for listed in listing] == [{"site": "1"}, {"site": ""}, {"site": ""}]
    assert re.search(r"--name-pattern .*: 2 \(a/2\.flac, b\.wav\)$", listing.sentences()[-1])
    with pytest.raises(InputError, match=r"'x\{site\}': no name .*a/10\.wav"):
        list(list_recordings(["a"], "x{site}"))


def test_only_a_name_of_a_table_stands_for_one(folder: Path) -> None:
    Path("night.csv").write_text("path\nb.wav\n")
    for names, found in (
        (["night.csv"], ["b.wav"]),
        (["*.csv"], ["b.wav"]),
        (["*"], ["a/10.wav", "a/2.flac", "b.wav", "night.csv"]),
    ):
        assert [str(listed.source) for listed in list_recordings(names)] == found
    with pytest.raises(InputError, match=r"none\.csv: cannot be read"):
        list_recordings(["none.csv"])
    Path("empty.csv").touch()
    listing = list_recordings(["empty.csv"])
    assert (list(listing), listing.empty_sources) == ([], ["empty.csv"])


def test_urls_of_files_folders_globs_and_tables(flaky: type[FlakyStore]) -> None:
    store = fsspec.filesystem("flaky")
    for name in ("night/b.wav", "night/a/1.wav", "night/notes.txt"):
        store.pipe_file(f"/net/{name}", b"")
    store.pipe_file("/net/list.csv", b"path,site\nnight/b.wav,mill\ns3://other/c.wav,\n")
    Path("list.csv").write_text("path,site\nflaky://net/night/a/1.wav,ford\na/2.flac,\n")
    root = "flaky://net"
    names = [f"{root}/night", f"{root}/night/*.wav", f"{root}/list.csv", "list.csv", "file://b.wav"]
    listing = list_recordings([*names, f"{root}/x/missing.wav"])
    assert [(str(listed.source), listed.columns["site"], listed.error) for listed in listing] == [
        (f"{root}/night/a/1.wav", "", ""),
        (f"{root}/night/b.wav", "", ""),
        (f"{root}/night/b.wav", "", ""),
        (f"{root}/night/b.wav", "mill", ""),
        ("s3://other/c.wav", "", ""),
        (f"{root}/night/a/1.wav", "ford", ""),
        ("a/2.flac", "", ""),
        ("b.wav", "", ""),
        (f"{root}/x/missing.wav", "", ""),
    ]
    assert says(listing.sentences(), r"without sound .*: 1 \.txt$")


def test_a_glob_that_gives_nothing_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[RemoteFile] = []
    monkeypatch.setattr(RemoteFile, "matches", lambda remote: asked.append(remote) or [])
    listing = list_recordings(["s3://net/*.wav"])
    assert (list(listing), listing.empty_sources) == ([], ["s3://net/*.wav"])
    assert asked == [RemoteFile("s3://net/*.wav")]


def test_only_the_first_few_files_of_each_bucket_are_kept(flaky: type[FlakyStore]) -> None:
    names = [f"{root}/{name}" for root in ("flaky://net", "s3://other") for name in "abcd"]
    Path("list.csv").write_text("\n".join(["path", *names]))
    listing = list_recordings(["list.csv"])
    assert len(list(listing)) == 8
    kept = {host: [file.name for file in files] for host, files in listing.first_remote.items()}
    assert kept == {"flaky://net": ["a", "b", "c"], "s3://other": ["a", "b", "c"]}


def test_a_url_that_cannot_be_listed_is_named(flaky: type[FlakyStore]) -> None:
    with pytest.raises(InputError, match=r"^flaky://net/none: .*no such"):
        list(list_recordings(["flaky://net/none"]))
    flaky.failures[:] = [PermissionError("Access Denied")]
    with pytest.raises(InputError, match=r"^flaky://net/list.csv: access is forbidden"):
        list_recordings(["flaky://net/list.csv"])
    fsspec.filesystem("flaky").pipe_file("/net/list.csv", b"file\n")
    with pytest.raises(InputError, match=r"^flaky://net/list.csv: .*needs the column path"):
        list_recordings(["flaky://net/list.csv"])


def test_columns_are_read_out_of_the_names_of_urls(flaky: type[FlakyStore]) -> None:
    fsspec.filesystem("flaky").pipe_file("/net/mill/20260517_0200.wav", b"")
    listing = list_recordings(["flaky://net"], "{site}/{recorded_at:%Y%m%d_%H%M}")
    (listed,) = listing
    assert listed.columns == {"site": "mill", "recorded_at": "2026-05-17T02:00:00"}


def test_an_empty_pattern_is_refused() -> None:
    with pytest.raises(SettingsError, match="it has no field"):
        list_recordings(["a"], "")
