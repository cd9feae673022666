from pathlib import Path

import pytest

from leakdet.errors import InputError
from leakdet.storage.store_folder import require_store


def test_a_store_is_a_folder_of_hdf5_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such store"):
        require_store(tmp_path / "typo")
    with pytest.raises(InputError, match=f"leakdet build source={tmp_path} out=store"):
        require_store(tmp_path)
    (tmp_path / "TRAINING_DATASET.H5").touch()
    with pytest.raises(InputError, match="this is a file"):
        require_store(tmp_path / "TRAINING_DATASET.H5")
    require_store(tmp_path)
