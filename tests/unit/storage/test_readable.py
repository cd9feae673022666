from pathlib import Path

import pytest

from leakdet.errors import InputError
from leakdet.storage.readable import require_readable, understood


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


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyError("f1"), r"it lacks 'f1'"),
        (ValueError("no number\nin it"), "no number"),
        (TypeError(), r"TypeError\(\)"),
        (PermissionError(13, "Permission denied"), "Permission denied"),
        (UnicodeDecodeError("utf-8", b"\xff" * 999, 0, 1, "invalid"), "'utf-8' codec can't .{,60}"),
    ],
)
def test_what_is_wrong_with_its_content_is_said(tmp_path: Path, error: Exception, reason: str):
    message = rf"a\.csv: not a history \({reason}\)\. Remove it\.$"
    with (
        pytest.raises(InputError, match=message),
        understood(tmp_path / "a.csv", "a history", "Remove it."),
    ):
        raise error


def test_a_sentence_stays_as_it_is(tmp_path: Path):
    with pytest.raises(InputError, match=r"^said$"), understood(tmp_path, "a history"):
        raise InputError("said")
