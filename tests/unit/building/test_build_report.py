import csv
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from leakdet.building.build_report import BuildReport, write_build_files, write_splits
from leakdet.building.sources import LeftOut
from leakdet.config import BuildConfig, SignalConfig
from leakdet.storage.writer import RecordingRow, SplitWriter

ROW = RecordingRow(
    "é, \"quoted\".wav", "/x/a.wav", "LEAK", {"site": "north"}, 1.0, "0", 1.5, 2000, -20.0, 0.0,
    0.0, ["short", "clipped"], 3, 7,
)  # fmt: skip


@pytest.fixture
def report(tmp_path: Path) -> BuildReport:
    return BuildReport(tmp_path, SignalConfig(), ["LEAK", "NOLEAK"], ["LEAK"])


class Writer(SplitWriter):
    """A writer of one row, which notes what it is asked to write."""

    def __init__(self, row: RecordingRow) -> None:
        self.rows, self.written = [row], []

    def write(self, *given: object) -> None:
        self.written.append(given)


def test_rows_of_all_splits_are_in_recordings_csv(tmp_path: Path, report: BuildReport):
    other = replace(ROW, recording_id="b.wav", label="NOLEAK", groups={"pipe": "3"}, flags=[])
    writers = {"train": Writer(ROW), "val": Writer(other)}
    write_splits(writers, tmp_path, BuildConfig(compression="lzf"), report)
    assert writers["val"].written == [(tmp_path / "val.h5", ["LEAK", "NOLEAK"], ["LEAK"], "lzf")]
    write_build_files(tmp_path, {}, report)
    with (tmp_path / "recordings.csv").open(newline="", encoding="utf-8") as file:
        first, second = csv.DictReader(file)
    assert first["recording_id"] == 'é, "quoted".wav'
    assert (first["split"], first["label"], first["flags"]) == ("train", "LEAK", "short,clipped")
    assert (first["site"], first["pipe"]) == ("north", "")
    assert (second["site"], second["pipe"]) == ("", "3")
    assert not {"mel_crc32", "surrogate_of", "groups"} & first.keys()


def test_build_json_says_how_the_store_was_made(tmp_path: Path, report: BuildReport):
    report.left_out.append(LeftOut("b.wav", "silent"))
    report.remarks.append("a remark")
    report.surrogates = 2
    write_build_files(tmp_path, {"out": "store"}, report)
    content = json.loads((tmp_path / "build.json").read_text(encoding="utf-8"))
    assert datetime.fromisoformat(content["created_at"]).tzinfo is not None
    assert content["settings"] == {"out": "store"}
    assert SignalConfig.from_dict(content["signal"], "x").hash == content["signal_hash"]
    assert content["left_out"] == [{"path": "b.wav", "reason": "silent"}]
    assert (content["recordings"], content["surrogates"]) == (0, 2)
    assert content["remarks"] == ["a remark"]
