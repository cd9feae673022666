import shutil
from pathlib import Path

import pytest

from leakdet.building.builder import build_store
from leakdet.building.stored_build import StoredBuild, link, link_files, report_of
from leakdet.errors import InputError
from leakdet.storage.opening import open_split


def test_the_files_of_stores_become_the_shards_of_one(stores, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        stores.write_split(tmp_path / name / "train.h5", [2, 3], [0, 1], prefix=name)
    stores.write_split(tmp_path / "b" / "val.h5", [2, 3], [0, 1])
    parts = [tmp_path / name for name in "abc"]
    for symbolic in (False, True):
        folder = tmp_path / f"joined-{symbolic}"
        folder.mkdir()
        link_files(parts, folder, symbolic)
        assert sorted(path.name for path in folder.iterdir()) == [
            *(f"train-0000{number}-of-00003.h5" for number in range(3)), "val.h5",
        ]  # fmt: skip
        names = open_split(folder, "train").recording_ids.tolist()
        assert names == ["a-0", "a-1", "b-0", "b-1", "c-0", "c-1"]
    shutil.rmtree(tmp_path / "a")  # a hard link keeps its file
    assert open_split(tmp_path / "joined-False", "train").recordings == 6


def test_a_file_system_without_links_gets_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    (tmp_path / "a").write_text("content")
    monkeypatch.setattr("os.link", refuse)
    link(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_text() == "content"


def test_a_store_is_described_as_it_was_built(config) -> None:
    built = build_store(config(verify="off"))
    read = StoredBuild.read(built.out)
    assert read.signal == built.signal
    report = report_of(built.out, [read, read])
    assert len(report.rows) == 2 * len(built.rows)
    assert (report.label_names, report.leak_labels) == (built.label_names, built.leak_labels)
    (built.out / "build.json").unlink()
    with pytest.raises(InputError, match=r"build\.json"):
        StoredBuild.read(built.out)
