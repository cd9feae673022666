from pathlib import Path
from typing import Any

import pytest

from leakdet.building.build_report import BuildReport
from leakdet.building.build_summary import SHOWN, group_sentence, notes, table_rows
from leakdet.building.sources import LeftOut
from leakdet.config import SignalConfig


def row(split: str, label: str = "leak", flags: str = "", **groups: str) -> dict[str, Any]:
    return {"split": split, "label": label, "windows": 3, "duration_s": 900.0, "flags": flags} | (
        groups
    )


def report(*rows: dict[str, Any], **more: Any) -> BuildReport:
    return BuildReport(
        Path("out"), SignalConfig(), ["leak", "other"], ["leak"], rows=list(rows), **more
    )


def test_rows_are_counted_by_split_and_label_in_the_order_of_the_splits() -> None:
    found = report(row("test"), row("train", "other"), row("train"), row("train"))
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
            "session: all 3 values are in train and val; scores say nothing about a new "
            "session. Keep them apart: build with split.group_by=[session]",
        ),
        (
            {"train": "ab", "val": "bc", "test": "bd"},
            "session: 1 of 4 values is in train, val and test; scores are partly of a "
            "session known from training. Keep them apart: build with split.group_by=[session]",
        ),
        (
            {"train": "a", "val": "a", "test": "a"},
            "session: its one value is in train, val and test; "
            "scores say nothing about a new session.",
        ),
        (
            {"train": "ab", "val": "c", "test": "c"},
            "session: 2 in train, 1 in val, 1 in test; none in train and in another split",
        ),
        (
            {"train": "", "val": "", "test": ""},
            "session: blank everywhere; none in train and in another split",
        ),
    ],
)
def test_groups_shared_with_train_are_told_with_the_remedy(
    values: dict[str, str], sentence: str
) -> None:
    rows = [row(split, session=value) for split, of in values.items() for value in of or ("",)]
    assert group_sentence("session", rows) == sentence


def test_the_notes_name_flags_by_frequency_and_the_first_that_were_left_out() -> None:
    left_out = [LeftOut(f"[{number}].wav", "empty") for number in range(SHOWN + 5)]
    rows = [row("train", flags="clipped"), row("train", flags="clipped,short"), row("val")]
    lines = list(notes(report(*rows, left_out=left_out, surrogates=4, remarks=["a remark"])))
    assert lines[:5] == [
        "flags: 2 clipped, 1 short",
        "1 recording is shorter than a window: it is stored, trained on and scored as one window of "
        "its repeated sound, while predict leaves such recordings undecided",
        "surrogates of the leaks in train, used in training only: 4",
        "a remark",
        f"Left out: {SHOWN + 5} (build.json lists all of them)",
    ]
    assert lines[5:] == [f"  [{number}].wav: empty" for number in range(SHOWN)]
