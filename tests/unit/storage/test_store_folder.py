from pathlib import Path

import pytest

from leakdet.errors import InputError
from leakdet.storage.store_folder import build_facts, require_store


def test_a_store_is_a_folder_of_hdf5_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such store"):
        require_store(tmp_path / "typo")
    with pytest.raises(InputError, match=f"leakdet build source={tmp_path} out=store"):
        require_store(tmp_path)
    (tmp_path / "TRAINING_DATASET.H5").touch()
    with pytest.raises(InputError, match="this is a file"):
        require_store(tmp_path / "TRAINING_DATASET.H5")
    require_store(tmp_path)


def test_what_made_a_store_is_known_or_nothing_is(tmp_path: Path) -> None:
    assert build_facts(tmp_path) == {}
    for content, facts in (('{"settings": {}}', {"settings": {}}), ("{", {}), ("[1]", {})):
        (tmp_path / "build.json").write_text(content)
        assert build_facts(tmp_path) == facts
