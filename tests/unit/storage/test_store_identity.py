import shutil
from pathlib import Path

import pytest

from leakdet.errors import InputError
from leakdet.storage.store_identity import StoreIdentity


def test_a_store_that_stays_the_same(tmp_path: Path):
    for name in ("train.h5", "TEST.H5", "build.json"):
        (tmp_path / name).write_text(name)
    identity = StoreIdentity.of(tmp_path)
    (tmp_path / "build.json").write_text("a note")
    identity.check("")
    assert sorted(identity.files) == ["TEST.H5", "train.h5"]


@pytest.mark.parametrize("change", ["rebuilt", "changed", "removed"])
def test_a_store_that_is_another_one_now(tmp_path: Path, change: str):
    store = tmp_path / "store"
    store.mkdir()
    (store / "train.h5").write_text("old")
    identity = StoreIdentity.of(store)
    if change == "changed":
        (store / "train.h5").write_text("longer")
    else:
        store.rename(tmp_path / "old")
        if change == "rebuilt":
            shutil.copytree(tmp_path / "old", store)
    with pytest.raises(InputError, match=r"while it was used \(train\.h5\).*The weights are safe"):
        identity.check("The weights are safe.")
