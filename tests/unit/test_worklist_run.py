"""From tables of rows to the files of a work list."""

import csv
import json
import re
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from leakdet.errors import InputError
from leakdet.scoring.audio_detector import load_detector
from leakdet.sites.rules import WorklistRules
from leakdet.storage.model_card import file_hash
from leakdet.worklist_files import WorklistFiles
from leakdet.worklist_run import evidence_of, find_sources, write_worklist

LAST = datetime.fromisoformat("2026-11-28T03:00")
WriteRows = Callable[..., Path]


@pytest.fixture
def write_rows(tmp_path: Path) -> WriteRows:
    """Rows of predict: sites A to E in eight nights, of which B has an alarm in the last three."""

    def write(
        name: str = "rows.csv", model: str = "abc", last: datetime = LAST, **more: str
    ) -> Path:
        path = tmp_path / name
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            told = ("decision", "leak_prob", "threshold", "quiet_level_dbfs", "model", "error")
            writer.writerow(["path", "site", "recorded_at", *more, *told])
            for night in range(8):
                at = last - timedelta(days=7 - night)
                for site in "ABCDE":
                    leak = site == "B" and night > 4
                    verdict = ["leak", 0.9, 0.5] if leak else ["no_leak", 0.1, 0.5]
                    where = [f"{site}{night}.wav", site, at.isoformat(), *more.values()]
                    writer.writerow([*where, *verdict, -60.0 + 9 * leak, model, ""])
        return path

    return write


def run(rows: Path, out: Path, top: int = 3, detector=None, model: Path | None = None) -> None:
    sources = find_sources([rows], model)
    write_worklist(sources, WorklistFiles.named(out), WorklistRules(), top, detector)


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_all_files_tell_of_the_same_sites(write_rows: WriteRows, tmp_path: Path, messages) -> None:
    run(write_rows(lat="52.5", lon="13.4", pipe="PE"), tmp_path / "list.html")
    rows = table(tmp_path / "list.csv")
    assert [row["site"] for row in rows] == [*"BACDE"]
    assert (rows[0]["state"], rows[0]["leak_nights"], rows[0]["nights"]) == ("new", "3", "8")
    points = json.loads((tmp_path / "list.geojson").read_text())["features"]
    assert [point["properties"]["site"] for point in points] == [*"BACDE"]
    confirm = table(tmp_path / "list.confirm.csv")
    assert [row["site"] for row in confirm] == [*"BAC"]
    assert {(row["label"], row["pipe"]) for row in confirm} == {("", "PE")}
    text = (tmp_path / "list.html").read_text()
    assert "Work list: 5 sites over 8 nights" in text
    assert (
        "Night of 2026-11-28: 5 of 5 sites judged, 1 of them at or above the threshold 0.50."
        in (text)
    )
    saved = json.loads(re.findall(r'id="table">(.*)</script>', text)[0])
    assert [dict(zip(saved["columns"], row, strict=True)) for row in saved["rows"]] == confirm
    assert "1 new, 4 quiet" in messages.text


def test_without_coordinates_there_is_no_map_and_an_old_one_goes(
    write_rows: WriteRows, tmp_path: Path
) -> None:
    run(write_rows(lat="52.5", lon="13.4"), tmp_path / "list.html")
    assert 'id="map"' in (tmp_path / "list.html").read_text()
    run(write_rows(), tmp_path / "list.html")
    assert 'id="map"' not in (tmp_path / "list.html").read_text()
    assert not (tmp_path / "list.geojson").exists()
    with pytest.raises(InputError, match="no site has coordinates; predict takes them from"):
        run(write_rows(), tmp_path / "list.geojson")


def test_a_table_alone_is_all_that_is_written(write_rows: WriteRows, tmp_path: Path) -> None:
    rows = write_rows()
    run(rows, tmp_path / "list.csv")
    assert {path.name for path in tmp_path.iterdir()} == {rows.name, "list.csv"}


def test_the_model_is_found_where_the_rows_say(
    write_rows: WriteRows, example_files, tmp_path: Path, messages
) -> None:
    model = tmp_path / "model.safetensors"
    shutil.copy(example_files.model, model)
    rows = write_rows(model=file_hash(model))
    told = {"model": {"hash": file_hash(model), "path": str(model)}}
    (tmp_path / "rows.csv.json").write_text(json.dumps(told))
    assert find_sources([rows], None).model == model
    moved = model.rename(tmp_path / "moved.safetensors")
    sources = find_sources([rows], None)
    assert (sources.model, sources.threshold) == (None, 0.5)
    assert "say with --model where it lies" in messages.text
    assert find_sources([rows], moved).model == moved


def test_another_model_than_that_of_the_rows_is_refused(
    write_rows: WriteRows, example_files
) -> None:
    with pytest.raises(InputError, match="and the rows were scored by abc; give the model that"):
        find_sources([write_rows()], example_files.model)


def test_of_two_models_the_one_of_the_latest_recording_counts(
    write_rows: WriteRows, tmp_path: Path
) -> None:
    places = [
        write_rows("new.csv", model="new"),
        write_rows("old.csv", model="old", last=LAST - timedelta(days=9)),
    ]
    for order in (places, places[::-1]):
        assert find_sources(order, None).model_hash == "new"


def test_a_folder_that_predict_has_not_ended_is_told(
    write_rows: WriteRows, tmp_path: Path, messages
) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    write_rows().rename(folder / "part-00000.csv")
    (folder / "parts.json").write_text(json.dumps({"outcome": None}))
    run(folder, tmp_path / "list.html")
    sentence = f"Not all recordings are scored yet in {folder}"
    assert sentence in messages.text
    assert sentence in (tmp_path / "list.html").read_text()


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("no.csv", None, "cannot be read"),
        ("rows.txt", "path\n", "name a folder of parts"),
        ("other.csv", "a,b\n1,2\n", "no rows of leakdet predict"),
        ("empty", None, "there are no parts in this folder"),
    ],
)
def test_what_holds_no_rows_is_refused(
    tmp_path: Path, name: str, text: str | None, reason: str
) -> None:
    (tmp_path / "empty").mkdir()
    if text:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=reason):
        find_sources([tmp_path / name], None)


def test_rows_without_sites_are_refused_before_anything_is_written(
    write_rows: WriteRows, tmp_path: Path
) -> None:
    rows = write_rows()
    rows.write_text(rows.read_text().replace("path,site,", "path,place,"))
    with pytest.raises(InputError, match="site"):
        run(rows, tmp_path / "list.html")
    assert not (tmp_path / "list.html").exists()


def test_the_scores_that_a_model_keeps_are_its_evidence(example_files) -> None:
    assert evidence_of(None) is None
    detector = load_detector(example_files.model, device="cpu")
    kept, evidence = detector.mel_detector.validation, evidence_of(detector)
    assert kept is None if evidence is None else len(evidence.scores) == len(kept.scores)
