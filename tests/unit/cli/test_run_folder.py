"""A run's folder belongs to one run at a time."""

from pathlib import Path

import pytest

from leakdet.cli.run_folder import claimed, fresh_folder
from leakdet.errors import SettingsError


def test_a_taken_name_gets_a_number(tmp_path: Path) -> None:
    wanted = tmp_path / "runs" / "12-00-00"
    made = [fresh_folder(wanted) for _ in range(3)]
    assert [path.name for path in made] == ["12-00-00", "12-00-00-2", "12-00-00-3"]


def test_the_second_run_in_a_folder_is_refused_while_the_first_is_at_it(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    with claimed(folder):
        (folder / "model").touch()
        with pytest.raises(SettingsError, match="mine: another run is writing"), claimed(folder):
            pass
    with claimed(folder):
        assert [path.name for path in folder.iterdir()] == ["model"]
    model = folder / "model"
    for taken in (model, model / "below"):
        message = "a run needs a folder, and a file is in its place"
        with pytest.raises(SettingsError, match=message), claimed(taken):
            pass


def test_a_folder_in_which_nothing_was_written_does_not_stay(tmp_path: Path) -> None:
    with claimed(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
    assert not (tmp_path / "a" / "b").exists()


def test_further_processes_of_a_run_share_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with claimed(tmp_path):
        monkeypatch.setenv("LOCAL_RANK", "1")
        with claimed(tmp_path):
            (tmp_path / "shared").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["shared"]
