from importlib import import_module

import pytest

from leakdet.cli.window_files import check_window_files
from leakdet.errors import SettingsError


def parsed(*words: object):
    return import_module("leakdet.predict").parser().parse_args(["m", "a", *map(str, words)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--labels-format raven", "--labels-format goes with labels; add --labels DIR"),
        ("--clip-seconds 5", "--clip-seconds goes with clips; add --clips DIR"),
        ("--labels l --parts p", "--labels does not go with --parts, which keeps rows and no"),
        ("--clips c --parts p", "--clips does not go with --parts"),
        ("- --clips c", "standard input"),
        ("--clips c --labels ./c", "name the same folder"),
        ("--clips used", "exists already, and nothing is replaced; name a new folder"),
        ("--labels used/file", "exists already"),
        ("--labels lost", "exists already"),
    ],
)
def test_what_does_not_go_together_is_refused(words, message, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "used").mkdir()
    (tmp_path / "used/file").touch()
    (tmp_path / "lost").symlink_to(tmp_path / "away")
    with pytest.raises(SettingsError, match=message):
        check_window_files(parsed(*words.split()))


def test_new_and_empty_folders_are_taken(tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    check_window_files(parsed("--clips", tmp_path / "new", "--labels", tmp_path / "empty"))
    check_window_files(parsed())


def test_a_bucket_is_no_folder_for_them(capsys) -> None:
    with pytest.raises(SystemExit):
        parsed("--clips", "s3://bucket/clips")
    assert "name a folder on a disk, no URL" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0.5", "601", "nan", "long"])
def test_the_length_of_clips_has_a_range(seconds, capsys) -> None:
    with pytest.raises(SystemExit):
        parsed("--clips", "c", "--clip-seconds", seconds)
    assert "allowed are 1 to 600 seconds" in capsys.readouterr().err
