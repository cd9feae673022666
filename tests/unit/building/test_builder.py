from pathlib import Path

import pytest

from leakdet.building.builder import build_store
from leakdet.config import DemoConfig, SignalConfig, SplitConfig
from leakdet.errors import InputError, SettingsError
from leakdet.storage.store import open_leakdet_split


def test_a_shard_takes_every_nth_recording_of_the_splits_of_all(config, tmp_path: Path):
    whole = build_store(config(out=str(tmp_path / "whole"), verify="off"))
    split_of = {row["recording_id"]: row["split"] for row in whole.rows}
    in_order = sorted(split_of)  # label folders are read in order
    for number in range(3):
        shard = build_store(config(shard=f"{number}/3", verify="off"))
        assert shard.out == tmp_path / f"store.shard-{number}-of-3"
        names = {row["recording_id"]: row["split"] for row in shard.rows}
        assert names == {name: split_of[name] for name in in_order[number::3]}
        assert (shard.out / f"train-{number:05}-of-00003.h5").exists()


@pytest.mark.parametrize(
    ("verify", "remark"), [("sample", "a sample of the recordings"), ("full", "every recording")]
)
def test_what_was_verified_is_told(config, verify: str, remark: str):
    report = build_store(config(verify=verify))
    assert report.remarks[-1] == f"Verified: the mel of {remark} equals that of its audio."


def test_the_demo_is_split_by_site_and_the_callers_settings_stay(config):
    demo = DemoConfig(sites=6, recordings_per_site=2, duration_s=0.5)
    settings = config(source="demo", demo=demo, signal=SignalConfig(), verify="off")
    report = build_store(settings)
    assert "The demo is split by site (split.group_by=[site])." in report.remarks
    assert settings.split == SplitConfig()
    site_of = {row["site"]: row["split"] for row in report.rows}
    assert all(row["split"] == site_of[row["site"]] for row in report.rows)


def test_a_store_that_holds_its_source_is_not_replaced(config, tmp_path: Path):
    demo = DemoConfig(sites=6, recordings_per_site=2, duration_s=0.5)
    out = build_store(config(source="demo", demo=demo, signal=SignalConfig(), verify="off")).out
    held = sorted(out.rglob("*"))
    rows = [
        f"{path},{('leak', 'no')[number % 2]}\n" for number, path in enumerate(out.rglob("*.wav"))
    ]
    (tmp_path / "list.csv").write_text("".join(["path,label\n", *rows]))
    for source in (out / "manifest.csv", tmp_path / "list.csv"):
        with pytest.raises(InputError, match="would be deleted with the store"):
            build_store(config(source=str(source), overwrite=True, verify="off"))
    assert sorted(out.rglob("*")) == held


def test_the_demo_is_not_built_in_shards(config):
    with pytest.raises(InputError, match=r"source=demo: .*without shard="):
        build_store(config(source="demo", shard="0/2"))


def test_mel_that_cannot_be_computed_is_refused_before_any_work(config, tmp_path: Path):
    with pytest.raises(SettingsError, match="hold no FFT bin"):
        build_store(config(signal=SignalConfig(2000, 400, 200, 100, 50, n_mels=64, fmin_hz=0.0)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audio"]


def test_group_columns_of_a_split_are_written_by_every_shard(config, source: Path, tmp_path: Path):
    rows = ["path,label,split,site"]
    for number, path in enumerate(sorted(source.rglob("*.wav"))):
        split = ("train", "val")[number % 2]
        rows.append(f"{path},{path.parent.name},{split},{number if number < 2 else ''}")
    (tmp_path / "list.csv").write_text("\n".join(rows))
    settings = config(source=str(tmp_path / "list.csv"), shard="2/6", verify="off")
    report = build_store(settings)
    split = open_leakdet_split(report.out, "train", [report.out / "train-00002-of-00006.h5"])
    assert split.groups["site"].tolist() == [""] * split.recordings
