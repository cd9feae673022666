"""The folder of stores that are made or copied once."""

from pathlib import Path

import pytest

from leakdet.errors import InputError
from leakdet.storage.cache_folder import default_cache, require_writable


def test_the_default_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "leakdet"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_cache() == Path("/home/someone/.cache/leakdet")


def test_a_folder_is_made_or_the_setting_is_named(tmp_path: Path) -> None:
    require_writable(tmp_path / "a/b")
    assert (tmp_path / "a/b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file: no store can be kept there .*data\.cache="):
        require_writable(tmp_path / "file")
