from pathlib import Path

import pytest

from leakdet.errors import InputError
from leakdet.storage.readable import require_readable


def test_a_file_that_can_be_read(tmp_path: Path):
    (tmp_path / "a").touch()
    require_readable(tmp_path / "a", "model file")


def test_what_is_missing_or_refused_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InputError, match="there is no such model file"):
        require_readable(tmp_path / "a", "model file")
    with pytest.raises(InputError, match=r"this checkpoint cannot be read \(Is a directory\)"):
        require_readable(tmp_path, "checkpoint")
    with pytest.raises(InputError, match=r"cannot be read \(embedded null"):
        require_readable(tmp_path / "a\0", "checkpoint")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"cannot be read \(Permission denied\)"):
        require_readable(tmp_path / "a", "model file")
