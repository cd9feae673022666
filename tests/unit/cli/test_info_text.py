"""What lies at a path."""

import json
import shutil
from pathlib import Path

import pytest

from leakdet.cli.info_text import info_text
from leakdet.errors import InputError


def test_each_kind_is_found_by_its_files(trained, tmp_path: Path) -> None:
    for path, begin in (
        (trained.folder, "run "),
        (trained.folder.parent, "runs "),
        (trained.model, "model "),
        (trained.store, "store "),
        (trained.store / "val.h5", "split "),
    ):
        assert info_text(path).split()[0] == begin.strip(), path  # long paths wrap
    study = tmp_path / "study"
    study.mkdir()
    (study / "study.journal").touch()
    assert info_text(study).split()[0] == "search"


def test_a_run_without_a_model_yet_is_a_run(tmp_path: Path) -> None:
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "overrides.yaml").write_text("- seed=1\n")
    assert "leakdet train seed=1" in info_text(tmp_path)


def test_the_link_to_the_latest_run_is_no_further_run(trained, tmp_path: Path) -> None:
    shutil.copytree(trained.folder, tmp_path / "a")
    (tmp_path / "latest").symlink_to("a")
    assert info_text(tmp_path).split()[:3] == ["runs", f"{tmp_path}:", "1"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing", "no such file or folder"),
        ("notes.txt", "nothing of leakdet"),
        ("d", "it holds x"),
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(
    name: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").touch()
    with pytest.raises(InputError, match=reason) as error:
        info_text(tmp_path / name)
    assert "info takes a model file" in str(error.value)


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text(json.dumps({"accuracy": 1}))
    with pytest.raises(InputError, match="did not write"):
        info_text(tmp_path)
