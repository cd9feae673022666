from pathlib import Path

import fsspec
import pytest
from tests.remote_stores import FlakyStore

from leakdet.config import DataConfig
from leakdet.core.errors import InputError
from leakdet.storage.folder import (
    build_facts,
    check_columns,
    group_columns,
    local_store,
    require_store,
    with_local_stores,
)
from leakdet.storage.opening import open_split


def test_a_store_is_a_folder_of_hdf5_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such store.* build RECORDINGS .*typo"):
        require_store(tmp_path / "typo")
    with pytest.raises(InputError, match=r"typo: .*no such file .* or recordings: "):
        require_store(tmp_path / "typo", or_recordings=True)
    with pytest.raises(InputError, match=f"leakdet build {tmp_path} store"):
        require_store(tmp_path)
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "train.h5").touch()
    with pytest.raises(InputError, match=rf"stores in it.*: {tmp_path}/inside\.$"):
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
    with pytest.raises(InputError, match=r"--group-by: 'sit' .* mean site\?"):
        check_columns(demo_store, ["site", "sit"], "--group-by")


def test_a_url_as_a_path_is_told_to_be_copied() -> None:
    with pytest.raises(InputError, match=r"^s3:/town/store: .*copy it"):
        require_store(Path("s3://town/store"))


URL = "flaky://net/stores/town"


@pytest.fixture
def files(flaky: type[FlakyStore]) -> dict[str, bytes]:
    content = {"train.h5": b"mel", "audio/LEAK/a.wav": b"sound", "build.json": b"{}"}
    for name, data in content.items():
        fsspec.filesystem("flaky").pipe_file(f"/net/stores/town/{name}", data)
    return content


def held(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_a_store_is_copied_once_and_again_when_it_changed(
    files: dict[str, bytes], tmp_path: Path, messages: pytest.LogCaptureFixture
) -> None:
    copy = local_store(URL, str(tmp_path))
    assert held(Path(copy)) == files
    assert f"copying 0.0 MB to {copy}" in messages.text
    assert local_store(URL, str(tmp_path)) == copy
    assert f"{URL}: was copied to {copy}" in messages.text
    fsspec.filesystem("flaky").pipe_file("/net/stores/town/build.json", b"[]")
    assert local_store(URL, str(tmp_path)) != copy
    assert len(list(tmp_path.iterdir())) == 2


def test_other_stores_stay_as_they_are(files: dict[str, bytes], tmp_path: Path) -> None:
    local = with_local_stores(DataConfig(stores=["a", URL], cache=str(tmp_path)))
    assert local.stores[0] == "a"
    assert held(Path(local.stores[1])) == files
    assert with_local_stores(DataConfig(store="here")) == DataConfig(store="here")
    assert with_local_stores(DataConfig()) == DataConfig()


def test_a_store_that_cannot_be_had_leaves_nothing(
    files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"flaky://net/none: .*no such"):
        local_store("flaky://net/none", str(tmp_path))
    with pytest.raises(InputError, match="flaky://net/stores/town/audio: holds no"):
        local_store(f"{URL}/audio", str(tmp_path))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("Access Denied")

    monkeypatch.setattr(FlakyStore, "get_file", refuse)
    with pytest.raises(InputError, match=r"flaky://net/stores/town/audio/LEAK/a.wav: access is"):
        local_store(URL, str(tmp_path))
    assert list(tmp_path.iterdir()) == []
