from pathlib import Path

import pytest

from leakdet.building.builder import build_store
from leakdet.config import DemoConfig, SignalConfig, SplitConfig
from leakdet.errors import InputError, SettingsError
from leakdet.storage.store import open_leakdet_split


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


def test_mel_that_cannot_be_computed_is_refused_before_any_work(config, tmp_path: Path):
    with pytest.raises(SettingsError, match="hold no FFT bin"):
        build_store(config(signal=SignalConfig(2000, 400, 200, 100, 50, n_mels=64, fmin_hz=0.0)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audio"]


def test_a_group_column_stays_when_its_recordings_are_left_out(
    config, source: Path, tmp_path: Path
):
    leak, quiet = sorted(source.rglob("*.wav"))[0], sorted(source.rglob("*.wav"))[-1]
    quiet.write_bytes(leak.read_bytes())  # one sound with two labels: both are left out
    rows = ["path,label,split,site"]
    for number, path in enumerate(sorted(source.rglob("*.wav"))):
        site = "north" if path in (leak, quiet) else ""
        rows.append(
            f"{path},{path.parent.name},{'train' if site else ('train', 'val')[number % 2]},{site}"
        )
    (tmp_path / "list.csv").write_text("\n".join(rows))
    report = build_store(config(source=str(tmp_path / "list.csv"), verify="off"))
    split = open_leakdet_split(report.out, "train")
    assert split.groups["site"].tolist() == [""] * split.recordings
