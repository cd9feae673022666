"""The columns of a row, and a verdict as plain values."""

import json
import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from leakdet.tables.schema import COLUMNS, Verdict, Window, is_reserved, row_columns

SCORED = Verdict(
    path="a.wav",
    decision="leak",
    leak_prob=0.75,
    threshold=0.5,
    windows=[Window(0.0, 1.0, 0.9), Window(0.5, 1.5, 0.6)],
    leak_windows=2,
    duration_s=1.5,
    source_rate_hz=16000,
    flags=["short", "clipped"],
)
FAILED = Verdict("b.wav", None, None, 0.5, error="the file is empty (0 bytes)")


def test_both_kinds_of_verdict_have_the_same_keys_and_are_json() -> None:
    assert list(SCORED.to_dict()) == list(FAILED.to_dict())
    row = json.loads(json.dumps(SCORED.to_dict()))
    assert (row["windows"], row["flags"], row["error"]) == (2, "short,clipped", "")
    assert row["timeline"] == [[0.0, 1.0, 0.9], [0.5, 1.5, 0.6]]


def test_what_a_failed_recording_does_not_have_is_none_but_never_a_number() -> None:
    row = FAILED.to_dict()
    unknown = ("decision", "leak_prob", "windows", "leak_windows", "duration_s", "source_rate_hz")
    assert [row[key] for key in unknown] == [None] * len(unknown)
    assert (row["timeline"], row["flags"], row["threshold"]) == ([], "", 0.5)


def test_a_verdict_reads_as_one_line() -> None:
    assert repr(SCORED) == (
        "Verdict('a.wav': leak, leak_prob 0.750, threshold 0.5, 2 windows, short, clipped)"
    )
    assert repr(FAILED) == "Verdict('b.wav': error 'the file is empty (0 bytes)')"
    assert SCORED._repr_html_() is None
    with pytest.raises(TypeError, match=r"Detector\.predict"):
        SCORED.plot()


def test_a_verdict_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        SCORED.decision = "no_leak"  # type: ignore[misc]


def test_a_multiclass_model_adds_the_class_and_its_probabilities() -> None:
    told = replace(SCORED, class_name="burst", class_prob={"burst": 0.75, "ok": 0.25})
    row = told.to_dict()
    assert {**SCORED.to_dict(), "class": "burst", "prob_burst": 0.75, "prob_ok": 0.25} == row
    assert list(row)[-4:] == ["class", "prob_burst", "prob_ok", "timeline"]
    failed = replace(FAILED, class_prob=dict.fromkeys(("burst", "ok"))).to_dict()
    assert list(failed) == list(row)
    assert (failed["class"], failed["prob_ok"]) == (None, None)


def test_every_column_of_a_row_is_reserved() -> None:
    assert all(map(is_reserved, row_columns(True, ["leak", "ok"])))
    assert not any(map(is_reserved, ("site", "recorded_at", "logger", "lat", "lon", "pipe")))


def test_the_page_has_a_line_for_every_column() -> None:
    page = Path(__file__).parents[3] / "docs/verdicts.md"
    lines = re.findall(r"^\| (`.+?) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for line in lines for name in re.findall(r"`(\w+)`", line)}
    assert {column.name for column in COLUMNS} <= named
