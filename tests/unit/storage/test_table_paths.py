"""Files that the rows of a table name."""

from pathlib import Path

import pytest

from leakdet._remote import RemoteFile
from leakdet.storage.table_paths import absence, file_named


def test_a_file_beside_the_table_comes_before_one_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = Path("lists/night.csv")
    table.parent.mkdir()
    Path("a.wav").touch()
    assert file_named(table, "a.wav") == Path("a.wav")
    Path("lists/a.wav").touch()
    assert file_named(table, "a.wav") == Path("lists/a.wav")
    assert file_named(table, str(tmp_path / "a.wav")) == tmp_path / "a.wav"
    assert file_named(table, "none.wav") is None
    assert absence("none.wav") == f"no such file, neither beside the manifest nor in {tmp_path}"
    assert absence("/none.wav") == "no such file"


def test_names_as_other_systems_spell_them(tmp_path: Path) -> None:
    (tmp_path / "night").mkdir()
    (tmp_path / "night/Zu\u0308rich.wav").touch()
    found = file_named(tmp_path / "t.csv", "night\\Z\u00fcrich.wav")
    assert found == tmp_path / "night/Zu\u0308rich.wav"


def test_urls_are_not_looked_for() -> None:
    table = RemoteFile("s3://bucket/night/list.csv")
    assert file_named(Path("list.csv"), "s3://bucket/a.wav") == RemoteFile("s3://bucket/a.wav")
    assert file_named(Path("list.csv"), "file:///data/a.wav") == Path("/data/a.wav")
    assert file_named(table, "a\\b.wav") == RemoteFile("s3://bucket/night/a/b.wav")
    assert file_named(table, "./a.wav") == RemoteFile("s3://bucket/night/a.wav")
    assert file_named(table, "../audio/./a.wav") == RemoteFile("s3://bucket/audio/a.wav")
    assert file_named(table, "/nowhere/a.wav") is None
