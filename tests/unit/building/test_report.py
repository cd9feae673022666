import csv
import errno
import json
import os
import re
import shutil
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import says

from leakdet.building.builder import build_store
from leakdet.building.report import (
    SHOWN,
    BuildReport,
    StoredBuild,
    group_sentences,
    link,
    link_files,
    notes,
    report_of,
    table_rows,
    write_build_files,
    write_splits,
)
from leakdet.building.sources import LeftOut
from leakdet.config import BuildConfig, SignalConfig
from leakdet.core.errors import InputError
from leakdet.storage.opening import open_split
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
    assert not {"mel_crc32", "groups"} & first.keys()


def test_build_json_says_how_the_store_was_made(tmp_path: Path, report: BuildReport):
    report.left_out.append(LeftOut("b.wav", "silent"))
    report.remarks.append("a remark")
    write_build_files(tmp_path, {"out": "store"}, report)
    content = json.loads((tmp_path / "build.json").read_text(encoding="utf-8"))
    assert datetime.fromisoformat(content["created_at"]).tzinfo is not None
    assert content["settings"] == {"out": "store"}
    assert SignalConfig.from_dict(content["signal"], "x").hash == content["signal_hash"]
    assert content["left_out"] == [{"path": "b.wav", "reason": "silent"}]
    assert content["recordings"] == 0
    assert content["remarks"] == ["a remark"]


def row(split: str, label: str = "leak", flags: str = "", **groups: str) -> dict[str, Any]:
    return {"split": split, "label": label, "windows": 3, "duration_s": 900.0, "flags": flags} | (
        groups
    )


def summary_report(*rows: dict[str, Any], **more: Any) -> BuildReport:
    return BuildReport(
        Path("out"), SignalConfig(), ["leak", "other"], ["leak"], rows=list(rows), **more
    )


def test_rows_are_counted_by_split_and_label_in_the_order_of_the_splits() -> None:
    found = summary_report(row("test"), row("train", "other"), row("train"), row("train"))
    assert table_rows(found) == [
        ("train", "leak (leak)", "2", "6", "0.50"),
        ("train", "other", "1", "3", "0.25"),
        ("test", "leak (leak)", "1", "3", "0.25"),
    ]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"train": "abc", "val": "abc", "test": ""},
            r"^session: all 3 values .* train and val; .*new session.*split\.group_by=\[session\]$",
        ),
        (
            {"train": "ab", "val": "bc", "test": "bd"},
            r"^session: 1 of 4 values .* train, val and test; .*partly .*split\.group_by=\[session\]$",
        ),
        (
            {"train": "a", "val": "a", "test": "a"},
            r"^session: its one value .* train, val and test; .*new session\.$",
        ),
        (
            {"train": "ab", "val": "c", "test": "c"},
            "^session: 2 in train, 1 in val, 1 in test; none in train and ",
        ),
        (
            {"train": "", "val": "", "test": ""},
            "^session: blank everywhere; none in train and ",
        ),
    ],
)
def test_groups_shared_with_train_are_told_with_the_remedy(
    values: dict[str, str], sentence: str
) -> None:
    rows = [row(split, session=value) for split, of in values.items() for value in of or ("",)]
    (told,) = group_sentences(["session"], rows)
    assert re.search(sentence, told)


def test_the_notes_name_flags_by_frequency_and_the_first_that_were_left_out() -> None:
    left_out = [LeftOut(f"[{number}].wav", "empty") for number in range(SHOWN + 5)]
    rows = [row("train", flags="clipped"), row("train", flags="clipped,short"), row("val")]
    lines = list(notes(summary_report(*rows, left_out=left_out, remarks=["a remark"])))
    assert says(
        lines[:4],
        "^flags: 2 clipped, 1 short$",
        "^1 recording is shorter than a window: .*undecided",
        "^a remark$",
        rf"^Left out: {SHOWN + 5} \(build\.json ",
    )
    assert lines[4:] == [f"  [{number}].wav: empty" for number in range(SHOWN)]


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


def test_without_any_links_the_files_of_a_store_are_copied(
    config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a file's times and rights cannot be set, as on some shares."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    for name in ("link", "symlink", "chmod", "utime"):
        monkeypatch.setattr(os, name, refuse)
    store = build_store(config(verify="off")).out
    link_files([store], tmp_path, symbolic=True)
    assert (tmp_path / "train.h5").read_bytes() == (store / "train.h5").read_bytes()
