"""From tables of rows to the files of a work list."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leakdet.detection.kept_scores import ValidationScores
from leakdet.errors import InputError
from leakdet.scoring.audio_detector import load_detector
from leakdet.sites.rules import WorklistRules
from leakdet.storage.model_file import save_model
from leakdet.worklist_files import WorklistFiles
from leakdet.worklist_run import evidence_of, write_worklist
from leakdet.worklist_sources import find_sources


def run(rows: Path, out: Path, top: int = 3, detector=None, model: Path | None = None) -> None:
    sources = find_sources([rows], model)
    write_worklist(sources, WorklistFiles.named(out), WorklistRules(), top, detector)


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_all_files_tell_of_the_same_sites(night_rows, tmp_path: Path, messages) -> None:
    run(night_rows(lat="52.5", lon="13.4", pipe="PE"), tmp_path / "list.html")
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
    for told in (text, messages.text):
        assert "The model that scored the rows (abc) is not at hand" in told
        assert "keeps no scores" not in told


def test_without_coordinates_there_is_no_map_and_an_old_one_goes(
    night_rows, tmp_path: Path
) -> None:
    run(night_rows(lat="52.5", lon="13.4"), tmp_path / "list.html")
    assert 'id="map"' in (tmp_path / "list.html").read_text()
    run(night_rows(), tmp_path / "list.html")
    assert 'id="map"' not in (tmp_path / "list.html").read_text()
    assert not (tmp_path / "list.geojson").exists()
    with pytest.raises(InputError, match="no site has coordinates; predict takes them from"):
        run(night_rows(), tmp_path / "list.geojson")


def test_a_table_alone_is_all_that_is_written(night_rows, tmp_path: Path) -> None:
    rows = night_rows()
    run(rows, tmp_path / "list.csv")
    assert {path.name for path in tmp_path.iterdir()} == {rows.name, "list.csv"}


def test_a_folder_that_predict_has_not_ended_is_told(night_rows, tmp_path: Path, messages) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    night_rows().rename(folder / "part-00000.csv")
    (folder / "parts.json").write_text(json.dumps({"outcome": None}))
    run(folder, tmp_path / "list.html")
    sentence = f"Not all recordings are scored yet in {folder}"
    assert sentence in messages.text
    assert sentence in (tmp_path / "list.html").read_text()


def test_sites_that_always_sound_so_are_told_with_their_first_rank(
    night_rows, tmp_path: Path, messages
) -> None:
    rows = night_rows()
    quiet, leak = "no_leak,0.1", "leak,0.9"
    lines = [
        line.replace(quiet, leak) if line.startswith("C") else line
        for line in rows.read_text().splitlines()
    ]
    rows.write_text("\n".join(lines))
    run(rows, tmp_path / "list.html")
    sentence = "1 site with alarms night after night, the first at rank 2 of 5: a pump, or an old"
    assert sentence in messages.text
    text = (tmp_path / "list.html").read_text()
    assert sentence in text
    assert '<option value="persistent">persistent (1)</option>' in text


def test_rows_without_sites_are_refused_before_anything_is_written(
    night_rows, tmp_path: Path
) -> None:
    rows = night_rows()
    rows.write_text(rows.read_text().replace("path,site,", "path,place,"))
    with pytest.raises(InputError, match="site"):
        run(rows, tmp_path / "list.html")
    assert not (tmp_path / "list.html").exists()


def test_the_test_scores_that_a_model_keeps_are_its_evidence(example_files) -> None:
    detector = load_detector(example_files.model, device="cpu")
    plain = replace(detector.mel_detector, tested=None, validation=None)
    val, tested = (
        ValidationScores(np.array([0.1, 0.9][:n]), np.array([False, True][:n])) for n in (2, 1)
    )
    assert evidence_of(None) is None
    for kept, split, count in (
        ({}, None, 0),
        ({"validation": val}, "validation", 2),
        ({"validation": val, "tested": tested}, "test", 1),
    ):
        detector.mel_detector = replace(plain, **kept)
        evidence = evidence_of(detector)
        assert (evidence.split if evidence else None) == split
        assert (len(evidence.scores) if evidence else 0) == count


def test_the_evidence_is_read_from_a_file_without_loading_its_model(tmp_path: Path) -> None:
    val, tested, none = (
        ValidationScores(np.array([0.1, 0.9][:n]), np.array([False, True][:n], bool))
        for n in (2, 1, 0)
    )
    for kept, split, scores in (
        ((None, None), None, []),
        ((val, None), "validation", [0.1, 0.9]),
        ((val, none), "validation", [0.1, 0.9]),
        ((val, tested), "test", [0.1]),
    ):
        model = tmp_path / "model.safetensors"
        save_model(model, {}, {}, validation=kept[0], tested=kept[1])
        found = evidence_of(None, model)
        assert (found.split if found else None) == split
        assert (found.scores.tolist() if found else []) == scores
        assert not found or found.is_leak.tolist() == [False, True][: len(scores)]
    assert evidence_of(None, tmp_path / "model.onnx") is None
