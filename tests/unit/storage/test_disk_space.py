import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from leakdet.errors import InputError
from leakdet.storage.disk_space import megabytes, require_folder, require_space


def test_more_than_is_free_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3_000_000_000))
    told = require_space(tmp_path / "not" / "yet", 1_500_000, "out=store")
    assert told == "about 1.5 MB will be written, and its disk has 3.0 GB left"
    with pytest.raises(InputError, match=r"^out=store: about 4\.0 GB .* 3\.0 GB left; free some"):
        require_space(tmp_path, 4_000_000_000, "out=store")


def test_a_folder_of_results_is_made_and_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_folder(tmp_path / "not" / "yet", "--out x")
    require_folder(tmp_path, "--out x")
    (tmp_path / "file").touch()
    for name, kind in (("build.json", "store"), ("model.safetensors", "training")):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / name).touch()
        with pytest.raises(InputError, match=f"^--out x: this is the folder of a {kind}; name one"):
            require_folder(tmp_path / kind, "--out x")
    with pytest.raises(InputError, match="file is a file; name a folder"):
        require_folder(tmp_path / "file" / "below", "--out x")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="may not be written; choose another place"):
        require_folder(tmp_path / "not" / "yet", "--out x")


def test_results_replace_those_of_an_evaluation_only(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text('{"model": "m.safetensors", "store": "s"}')
    require_folder(tmp_path, "--out x")
    for name, text in (
        ("metrics.json", '{"model": "m.safetensors", "settings": {}}'),
        ("metrics.json", "[]"),
        ("recordings.csv", "path,label\n"),
    ):
        for folder in (tmp_path / text[:9], tmp_path / text[:9] / "b"):
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(text)
            with pytest.raises(InputError, match=rf"{name} would be replaced, and evaluate did"):
                require_folder(tmp_path / text[:9], "--out x")
            (folder / name).unlink()


def test_sizes_are_in_megabytes_until_they_are_large() -> None:
    assert [megabytes(count) for count in (0, 123_456, 2_500_000_000)] == [
        "0.0 MB",
        "0.1 MB",
        "2.5 GB",
    ]
