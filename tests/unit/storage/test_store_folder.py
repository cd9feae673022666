from pathlib import Path

import pytest

from leakdet.errors import InputError
from leakdet.storage.opening import open_split
from leakdet.storage.store_folder import build_facts, check_columns, group_columns, require_store


def test_a_store_is_a_folder_of_hdf5_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such store.* build source=.*typo"):
        require_store(tmp_path / "typo")
    with pytest.raises(InputError, match=f"leakdet build source={tmp_path} out=store"):
        require_store(tmp_path)
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "train.h5").touch()
    with pytest.raises(InputError, match=rf"there are stores in it.*: {tmp_path}/inside\.$"):
        require_store(tmp_path)
    (tmp_path / "TRAINING_DATASET.H5").touch()
    with pytest.raises(InputError, match="this is a file"):
        require_store(tmp_path / "TRAINING_DATASET.H5")
    require_store(tmp_path)


def test_its_group_columns_are_those_of_its_recordings(demo_store: Path, tmp_path: Path) -> None:
    assert sorted(group_columns(demo_store)) == sorted(open_split(demo_store, "train").groups)
    assert group_columns(tmp_path) == []
    (tmp_path / "recordings.csv").write_text("site,pipe\n")
    assert group_columns(tmp_path) == []


def test_what_made_a_store_is_known_or_nothing_is(tmp_path: Path) -> None:
    assert build_facts(tmp_path) == {}
    for content, facts in (('{"settings": {}}', {"settings": {}}), ("{", {}), ("[1]", {})):
        (tmp_path / "build.json").write_text(content)
        assert build_facts(tmp_path) == facts


def test_columns_that_a_store_lacks_are_named(demo_store: Path, tmp_path: Path) -> None:
    check_columns(demo_store, ["site"], "--group-by")
    check_columns(tmp_path, ["sit"], "--group-by")  # without recordings.csv nothing is known
    with pytest.raises(InputError, match=r"--group-by: 'sit' is no group column.* mean site\?"):
        check_columns(demo_store, ["site", "sit"], "--group-by")


def test_a_url_as_a_path_is_told_to_be_copied() -> None:
    with pytest.raises(InputError, match=r"^s3:/town/store: stores are read from a disk; copy it"):
        require_store(Path("s3://town/store"))
