import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from leakdet.errors import InputError
from leakdet.storage.disk_space import megabytes, require_space


def test_more_than_is_free_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3_000_000_000))
    told = require_space(tmp_path / "not" / "yet", 1_500_000, "out=store")
    assert told == "about 1.5 MB will be written, and its disk has 3.0 GB left"
    with pytest.raises(InputError, match=r"^out=store: about 4\.0 GB .* 3\.0 GB left; free some"):
        require_space(tmp_path, 4_000_000_000, "out=store")


def test_sizes_are_in_megabytes_until_they_are_large() -> None:
    assert [megabytes(count) for count in (0, 123_456, 2_500_000_000)] == [
        "0.0 MB",
        "0.1 MB",
        "2.5 GB",
    ]
