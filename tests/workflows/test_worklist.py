"""From nights of sound to a work list, and from its confirmed recordings to a store and to learn."""

import codecs
import csv
import re
from datetime import datetime, timedelta
from pathlib import Path

import h5py
import pytest
from tests.conftest import noise

from leakdet.learning.inputs import Vocabulary, read_confirmed

SITES, NIGHTS = 6, 4


@pytest.fixture
def nights(write_sound, tmp_path: Path) -> Path:
    """A table of recordings of every site in every night; site 5 falls silent after the first."""
    table = tmp_path / "nights.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "site", "recorded_at", "lat", "lon", "logger"])
        for night in range(NIGHTS):
            at = datetime.fromisoformat("2026-11-20T03:00") + timedelta(days=night)
            for site in range(SITES):
                if site == 5 and night:
                    continue
                samples = (1 + site) / 10 * noise(2.0, seed=100 * night + site)
                name = f"sound/{night}-{site}.wav"
                write_sound(name, samples=samples)
                place = (52.5 + site / 100, 13.4)
                writer.writerow([name, f"S{site}", at.isoformat(), *place, f"L{site}"])
    return table


def table_in(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text("utf-8-sig").splitlines()))


def test_nights_become_a_list_whose_confirmed_recordings_are_learnt(
    door, example_files, nights: Path, tmp_path: Path
) -> None:
    words = (example_files.model, nights.name, "--parts", "parts", "--threshold", "0.0001")
    assert door("predict", *words, cwd=tmp_path).returncode == 0
    result = door(
        "worklist", "parts", "--out", "list.html", "--dig-cost", "2000", "--leak-cost", "15000",
        cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    for name in ("list.html", "list.csv", "list.geojson", "list.confirm.csv"):
        assert name in result.stdout
        assert (tmp_path / name).stat().st_size
    rows = {row["site"]: row for row in table_in(tmp_path / "list.csv")}
    assert rows["S5"]["state"] == "silent logger"
    assert {rows[f"S{site}"]["state"] for site in range(5)} <= {"new", "persistent"}
    page = (tmp_path / "list.html").read_text()
    assert page.count("<audio") == page.count("<fieldset") == SITES

    table = tmp_path / "list.confirm.csv"
    confirmed = table_in(table)
    assert {row["site"] for row in confirmed} == {f"S{site}" for site in range(SITES)}
    assert all(Path(row["path"]).is_file() for row in confirmed)
    for number, row in enumerate(confirmed):
        row["label"] = ("leak", "no_leak")[number % 2]
    assert table.read_bytes().startswith(codecs.BOM_UTF8)
    with table.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, confirmed[0])
        writer.writeheader()
        writer.writerows(confirmed)

    again = door("worklist", "parts", "--out", "list.html", cwd=tmp_path)
    assert again.returncode == 2
    assert re.search(r"list\.confirm\.csv: (\d) of its \1 labels", again.stderr)

    built = door(
        "build", f"source={table}", "out=store", "split.group_by=[site]",
        "split.ratios=[0.6,0.4,0]", cwd=tmp_path,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    with h5py.File(tmp_path / "store" / "train.h5") as file:
        assert {"site", "recorded_at", "logger"} <= set(file["group"])
    learnt = read_confirmed(table, Vocabulary(("leak", "no_leak"), ("leak",)))
    assert len(learnt.source.recordings) == len(confirmed)
    assert learnt.source.left_out == []


def test_what_is_wrong_is_said_before_any_work(door, nights: Path, tmp_path: Path) -> None:
    (tmp_path / "alarms.yaml").write_text("alarms: 5\n")
    (tmp_path / "wrong.yaml").write_text("of_night: 3\n")
    for words, reason in (
        (("nowhere",), "nowhere"),
        ((nights,), "nights.csv: these are no rows"),
        ((nights, "--out", "list.pdf"), "list.pdf: "),
        ((nights, "--alarms", "5"), "--rules FILE"),
        ((nights, "--rules", "alarms.yaml"), "alarms=5 "),
        ((nights, "--rules", "wrong.yaml"), "wrong.yaml: .*of_night.*Did you mean of_nights"),
        ((nights, "--dig-cost", "-1"), "dig_cost=-1.0 "),
        ((nights, "--top", "201"), "0 to 200"),
        ((nights, "--digcost", "1"), "Did you mean --dig-cost?"),
    ):
        result = door("worklist", *words, cwd=tmp_path)
        assert result.returncode == 2
        assert re.search(reason, result.stderr)
        assert "Traceback" not in result.stderr
    assert [path.name for path in tmp_path.glob("*list*")] == []
