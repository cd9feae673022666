import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from leakdet.building.builder import build_store
from leakdet.building.shard_merge import merge_shards
from leakdet.config import BuildConfig, SplitConfig
from leakdet.errors import InputError
from leakdet.storage.store import SPLITS, open_leakdet_split

SPLIT = SplitConfig(ratios=[0.5, 0.25, 0.25])


def config(audio: Path, out: Path, **changes: Any) -> BuildConfig:
    return BuildConfig(source=str(audio), out=str(out), split=SPLIT, **changes)


def by_recording(store: Path) -> dict[tuple[str, str], bytes]:
    """Map (split, recording) to the bytes of its mel, whatever the order in the files."""
    mel = {}
    for name in SPLITS:
        split = open_leakdet_split(store, name)
        for row, recording_id in enumerate(split.recording_ids.tolist()):
            low, high = split.recording_offsets[row : row + 2].tolist()
            mel[name, recording_id] = split.read(low, high).tobytes()
    return mel


def test_merged_shards_equal_the_store_built_as_a_whole(
    thirty_recordings: Path, tmp_path: Path
) -> None:
    build_store(config(thirty_recordings, tmp_path / "whole"))
    for number in (1, 0, 2):
        build_store(
            config(thirty_recordings, tmp_path / "spread", shard=f"{number}/3", verify="off")
        )
    assert not (tmp_path / "spread").exists()
    report = merge_shards(config(thirty_recordings, tmp_path / "spread", shard="merge"))
    assert by_recording(tmp_path / "spread") == by_recording(tmp_path / "whole")
    assert len(report.rows) == 30
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spread", "whole"]
    assert len(list((tmp_path / "spread").glob("train-*-of-00003.h5"))) == 3


def test_a_merge_refuses_missing_shards_and_other_settings(
    thirty_recordings: Path, tmp_path: Path
) -> None:
    merge = config(thirty_recordings, tmp_path / "store", shard="merge")
    with pytest.raises(InputError, match="no shards to merge"):
        merge_shards(merge)
    build_store(config(thirty_recordings, tmp_path / "store", shard="0/2", verify="off"))
    with pytest.raises(InputError, match=r"of 2 shards store\.shard-1-of-2 are missing"):
        merge_shards(merge)
    build_store(
        config(thirty_recordings, tmp_path / "store", shard="1/2", verify="off", compression="lzf")
    )
    with pytest.raises(InputError, match="compression differ"):
        merge_shards(merge)


def test_a_merge_names_the_same_sound_in_two_shards(
    thirty_recordings: Path, tmp_path: Path
) -> None:
    copied = tmp_path / "audio"
    for path in thirty_recordings.rglob("*.wav"):
        (copied / path.parent.name).mkdir(parents=True, exist_ok=True)
        (copied / path.parent.name / path.name).write_bytes(path.read_bytes())
    first = sorted((copied / "LEAK").iterdir())[0]
    # The next file in the source, hence in the other shard.
    first.with_name("00b.wav").write_bytes(first.read_bytes())
    for number in (0, 1):
        build_store(config(copied, tmp_path / "store", shard=f"{number}/2", verify="off"))
    with pytest.raises(InputError, match=r"LEAK/00b?\.wav \(as LEAK/00b?\.wav\)"):
        merge_shards(config(copied, tmp_path / "store", shard="merge"))
    assert not (tmp_path / "store").exists()


@pytest.fixture(scope="module")
def grouped(thirty_recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two shards, split by site; the second one has all recordings of test."""
    folder = tmp_path_factory.mktemp("grouped")
    leaks, others = (
        sorted(thirty_recordings.glob("LEAK/*")),
        sorted(thirty_recordings.glob("NORMAL/*")),
    )
    test = [(path, "test") for path in leaks[:2] + others[:2]]
    rest = [(path, "val") for path in leaks[2:4] + others[2:4]]
    rest += [(path, "train") for path in leaks[4:] + others[4:12]]
    order = [row for pair in zip(rest, test, strict=False) for row in pair] + rest[len(test) :]
    lines = [f"{path},{path.parent.name},{split},s{path.stem}" for path, split in order]
    (folder / "list.csv").write_text("\n".join(["path,label,split,site", *lines]))
    split = SplitConfig(ratios=[0.6, 0.2, 0.2], group_by=["site"])
    for number in (0, 1):
        changes = {"shard": f"{number}/2", "waveform": "int16", "surrogates": 1, "verify": "off"}
        build_store(
            BuildConfig(str(folder / "list.csv"), str(folder / "store"), split=split, **changes)
        )
    return folder


def shards_in(grouped: Path, folder: Path) -> BuildConfig:
    """Copy the shards into `folder`; return the settings to merge them there."""
    for number in (0, 1):
        shutil.copytree(
            grouped / f"store.shard-{number}-of-2", folder / f"store.shard-{number}-of-2"
        )
    return BuildConfig(source="any", out=str(folder / "store"), shard="merge")


def test_a_shard_may_lack_all_recordings_of_a_split(grouped: Path, tmp_path: Path) -> None:
    merge_shards(shards_in(grouped, tmp_path))
    test = open_leakdet_split(tmp_path / "store", "test")
    assert [part.shape[0] > 0 for part in test.mel.parts] == [False, True]
    assert test.groups["site"].tolist() == [
        f"s{Path(name).stem}" for name in test.recording_ids.tolist()
    ]
    assert open_leakdet_split(tmp_path / "store", "surrogates").recordings == 6


def test_a_merged_store_has_the_settings_of_its_shards(grouped: Path, tmp_path: Path) -> None:
    merge_shards(shards_in(grouped, tmp_path))
    settings = json.loads((tmp_path / "store" / "build.json").read_text())["settings"]
    assert (settings["waveform"], settings["surrogates"], settings["source"]) == (
        "int16",
        1,
        str(grouped / "list.csv"),
    )
    assert settings["split"]["ratios"] == [0.6, 0.2, 0.2]
    assert (settings["shard"], settings["out"]) == ("merge", str(tmp_path / "store"))


def test_a_merge_that_was_killed_while_removing_shards_can_be_run_again(
    grouped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = shards_in(grouped, tmp_path)
    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", lambda *_, **__: None)
        first = merge_shards(merge)
    assert not list(tmp_path.glob("store.shard-*"))  # none is ever visible half removed
    shutil.copytree(grouped / "store.shard-1-of-2", tmp_path / "store.shard-1-of-2")
    again = merge_shards(merge)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]
    assert [row["recording_id"] for row in again.rows] == [
        row["recording_id"] for row in first.rows
    ]
    assert (again.remarks, again.surrogates) == (first.remarks, first.surrogates)
    shutil.copytree(grouped / "store.shard-1-of-2", tmp_path / "store.shard-1-of-2")
    (tmp_path / "store.shard-1-of-2" / "test-00001-of-00002.h5").write_bytes(b"another")
    # A shard that was built anew is kept.
    with pytest.raises(InputError, match="holds a store already"):
        merge_shards(merge)
