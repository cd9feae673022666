import csv
import json
import re
import shutil
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from leakdet.building.sources import from_manifest
from leakdet.core.errors import InputError
from leakdet.core.locations import RemoteFile, Span
from leakdet.detection.stored_scores import ValidationScores
from leakdet.reporting.worklist_page import BEGINNING, CREATED_BY, GENERATOR
from leakdet.runs.worklist import (
    WorklistFiles,
    choose_recordings,
    confirm_rows,
    evidence_of,
    find_sources,
    found_file,
    gone_sentence,
    review_page,
    write_worklist,
)
from leakdet.scoring.detector import load_detector
from leakdet.sites.rows import read_blocks
from leakdet.sites.rules import WorklistRules
from leakdet.sites.states import Recording, WorklistRow
from leakdet.sites.worklist import make_worklist
from leakdet.storage.model_card import file_hash
from leakdet.storage.model_file import save_model
from leakdet.tables.write import write_csv

OWN = {
    "list.html": f'<meta name="generator" content="{GENERATOR}">',
    "list.csv": BEGINNING + ",in a later version\n",
    "list.geojson": f'{{"created_by": "{CREATED_BY} 1.0"}}',
    "list.confirm.csv": "path,label,why_suggested\na.wav,,rank 1\n",
}


def test_a_page_has_its_tables_beside_it(tmp_path: Path) -> None:
    files = WorklistFiles.named(tmp_path / "list.html")
    named = (files.page, files.table, files.points, files.confirm)
    assert [path.name for path in named if path] == list(OWN)
    files.check()


def test_a_table_is_written_alone(tmp_path: Path) -> None:
    alone = WorklistFiles.named(tmp_path / "LIST.CSV")
    assert (alone.page, alone.points, alone.confirm) == (None, None, None)
    points = WorklistFiles.named(tmp_path / "list.geojson")
    assert (points.page, points.table, points.confirm) == (None, None, None)


def test_its_own_files_are_replaced(tmp_path: Path) -> None:
    for name, text in OWN.items():
        (tmp_path / name).write_text(text)
    WorklistFiles.named(tmp_path / "list.html").check()


@pytest.mark.parametrize("name", OWN)
def test_what_another_wrote_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("path,decision\na.wav,leak\n")
    with pytest.raises(InputError, match=rf"{name}: .*worklist would replace it"):
        WorklistFiles.named(tmp_path / "list.html").check()


def test_labels_that_were_filled_in_stay(tmp_path: Path) -> None:
    table = tmp_path / "list.confirm.csv"
    table.write_text(OWN[table.name].replace(",,", ",leak,"))
    with pytest.raises(InputError, match="1 of its 1 labels"):
        WorklistFiles.named(tmp_path / "list.html").check()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("list.pdf", r"list\.pdf: .*\.html"),
        ("nowhere/list.html", "no folder"),
        ("folder.html", r"folder\.html: .*no folder"),
    ],
)
def test_names_that_cannot_be_written(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InputError, match=reason):
        WorklistFiles.named(tmp_path / name).check()


def test_the_model_is_found_where_the_rows_say(
    night_rows, example_files, tmp_path: Path, messages
) -> None:
    model = tmp_path / "model.safetensors"
    shutil.copy(example_files.model, model)
    rows = night_rows(model=file_hash(model))
    told = {
        "model": {"hash": file_hash(model), "path": str(model)},
        "decision_rule": {"threshold": 0.4},
    }
    (tmp_path / "rows.csv.json").write_text(json.dumps(told))
    assert find_sources([rows], None).model == model
    moved = model.rename(tmp_path / "moved.safetensors")
    sources = find_sources([rows], None)
    assert (sources.model, sources.threshold) == (None, 0.4)
    assert "name it with --model" in messages.text
    assert find_sources([rows], moved).model == moved


def test_another_model_than_that_of_the_rows_is_refused(night_rows, example_files) -> None:
    with pytest.raises(InputError, match="rows were scored by abc"):
        find_sources([night_rows()], example_files.model)


def test_of_two_models_the_one_of_the_latest_recording_counts(night_rows, tmp_path: Path) -> None:
    places = [
        night_rows("new.csv", model="new"),
        night_rows("old.csv", model="old", days_ago=9),
    ]
    for order in (places, places[::-1]):
        assert find_sources(order, None).model_hash == "new"


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("no.csv", None, "cannot be read"),
        ("nowhere", None, "nowhere: .*no such folder"),
        ("rows.txt", "path\n", r"rows\.txt: .*folder of parts"),
        ("other.csv", "a,b\n1,2\n", r"other\.csv: .*no rows"),
        ("empty", None, "empty: .*no parts.*--parts NEW_FOLDER"),
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


LAST = datetime.fromisoformat("2026-11-28T03:00")


def recording(path: str, hours: float, prob: float | None) -> Recording:
    return Recording(path, LAST - timedelta(hours=hours), prob, "leak", -55.5)


def site(name: str, *recordings: Recording, **columns: str) -> WorklistRow:
    return WorklistRow(
        name, "new", "it began", 3, 2, None, 0.7, None, None, None, None, (0.7,), (), None, None,
        None, None, None, columns, recordings,
    )  # fmt: skip


def test_the_most_leak_like_recording_of_the_last_night_is_heard() -> None:
    row = site(
        "A",
        recording("newest.wav", 0, 0.6),
        recording("highest.wav", 2, 0.8),
        recording("unread.wav", 3, None),
        recording("night before.wav", 24, 0.9),
    )
    assert [one.recording.path for one in choose_recordings([row], 5)] == ["highest.wav"]


def test_sites_without_sound_are_passed_over() -> None:
    rows = [
        site("A"),
        site("B", recording("b.wav", 0, None)),
        site("C", recording("c.wav", 0, 0.1)),
    ]
    shown = choose_recordings([*rows, *rows], 1)
    assert [(one.rank, one.row.site) for one in shown] == [(3, "C")]


def test_an_undated_recording_is_a_night_of_its_own() -> None:
    undated = Recording("a.wav", None, 0.2, "no_leak", None)
    assert choose_recordings([site("A", undated, recording("b.wav", 0, 0.9))], 1)[0].recording is (
        undated
    )


def test_names_are_looked_for_where_predict_may_have_run(tmp_path: Path, monkeypatch) -> None:
    rows = tmp_path / "work" / "parts"
    rows.mkdir(parents=True)
    (tmp_path / "work" / "a.wav").touch()
    monkeypatch.chdir(tmp_path)
    assert found_file("a.wav", [rows]) == tmp_path / "work" / "a.wav"
    (tmp_path / "a.wav").touch()
    assert found_file("a.wav", [rows]) == tmp_path / "a.wav"
    assert found_file("gone.wav", [rows]) == tmp_path / "gone.wav"
    assert found_file("/else/b.wav", [rows]) == Path("/else/b.wav")
    assert found_file("s3://bucket/b.wav", [rows]) == RemoteFile("s3://bucket/b.wav")


def test_the_table_is_one_that_build_reads(write_sound, tmp_path: Path) -> None:
    file = write_sound("a.wav")
    shown = choose_recordings(
        [site("S 1", recording("a.wav", 0, 0.75), pipe="PE", label="leak", split="test")], 9
    )
    (row,) = confirm_rows(shown, [file], "abc")
    assert row == {
        "path": str(file),
        "site": "S 1",
        "recorded_at": "2026-11-28T03:00:00",
        "pipe": "PE",
        "label": "",
        "why_suggested": "rank 1, new: it began",
        "leak_prob": "0.75",
        "decision": "leak",
        "quiet_level_dbfs": "-55.5",
        "model": "abc",
    }
    write_csv(tmp_path / "list.confirm.csv", [{**row, "label": "dry_hole"}])
    (read,) = from_manifest(tmp_path / "list.confirm.csv").recordings
    assert (read.path, read.label) == (file, "dry_hole")
    assert read.groups == {"site": "S 1", "recorded_at": "2026-11-28T03:00:00", "pipe": "PE"}


def test_a_channel_is_heard_and_confirmed_alone(example_files, write_sound, tmp_path: Path) -> None:
    loud = np.random.default_rng(0).normal(0, 0.1, (32000, 2))
    file = write_sound("both.wav", samples=loud * [1.0, 0.0])
    heard = Recording("both.wav", LAST, 0.5, "leak", None, channel=2)
    shown = choose_recordings([site("B7 channel 2", heard)], 1)
    rows = confirm_rows(shown, [file], "abc")
    assert (rows[0]["site"], rows[0]["channel"]) == ("B7", "2")
    write_csv(tmp_path / "list.confirm.csv", [{**rows[0], "label": "leak"}])
    (read,) = from_manifest(tmp_path / "list.confirm.csv", by_channel=True).recordings
    assert (read.channel, read.groups["site"]) == (2, "B7")
    detector = load_detector(example_files.model, device="cpu")
    (row,) = review_page(shown, rows, [file], detector, 0.5, "list.confirm.csv").rows
    tops = re.findall(r"v-(\d+)", row.card.below + row.card.above)
    assert len(tops) > 1
    assert len(set(tops)) == 1  # every window of silence sounds alike
    assert row.card.facts["channel"] == "2"


def test_seconds_are_heard_and_confirmed_alone(example_files, write_sound, tmp_path: Path) -> None:
    file = write_sound("night.wav", seconds=4.0, rate_hz=4000)
    rows = {
        "path": [str(file)] * 2, "site": ["A"] * 2, "recorded_at": ["2026-11-28T02:00"] * 2,
        "decision": ["leak"] * 2, "leak_prob": [0.5, 0.9], "threshold": [0.5] * 2,
        "start_s": [0.0, 2.5], "end_s": [1.0, 4.0],
    }  # fmt: skip
    (found,) = make_worklist(read_blocks([rows]), today=date(2026, 11, 29)).rows
    assert {recording.span for recording in found.recordings} == {Span(2.5, 4.0), Span(0.0, 1.0)}
    (chosen,) = choose_recordings([found], 1)
    (values,) = confirm_rows([chosen], [file], "")
    (listed,) = from_manifest(_table(tmp_path, {**values, "label": "leak"})).recordings
    assert (listed.path, listed.span) == (file, Span(2.5, 4.0))
    detector = load_detector(example_files.model, device="cpu")
    page = review_page([chosen], [values], [file], detector, 0.5, "confirm.csv")
    assert page.rows[0].card.windows == 11  # of a quarter of a second, twice as dense
    assert page.rows[0].card.facts["start_s"] == "2.5"


def _table(folder: Path, row: dict[str, str]) -> Path:
    write_csv(folder / "confirm.csv", [row])
    return folder / "confirm.csv"


def test_files_that_are_gone_are_counted_and_their_rows_say_so(
    example_files, tmp_path: Path, messages
) -> None:
    files = [example_files.recording, tmp_path / "gone.wav"]
    rows = [site(name, recording(f"{name}.wav", 0, 0.5)) for name in "AB"]
    shown = choose_recordings(rows, 2)
    assert "1 of 2 recordings" in gone_sentence(files)
    assert gone_sentence(files[:1]) == ""
    detector = load_detector(example_files.model, device="cpu")
    values = confirm_rows(shown, files, "abc")
    heard, gone = review_page(shown, values, files, detector, 0.5, "list.confirm.csv").rows
    assert heard.card.sound is not None
    assert heard.card.windows > 0
    assert (gone.card.sound, gone.card.picture) == (None, None)
    assert gone.card.facts["file"].endswith("gone.wav (gone)")
    assert not messages.text


def test_without_a_model_rows_are_listed_without_sound(tmp_path: Path) -> None:
    shown = choose_recordings([site("A", recording("a.wav", 0, 0.5))], 2)
    page = review_page(shown, confirm_rows(shown, [tmp_path], "m"), [tmp_path], None, 0.5, "c.csv")
    assert page.rows[0].card.picture is None
    assert page.columns[:3] == ["path", "site", "recorded_at"]


def test_no_recordings_make_an_empty_page() -> None:
    assert review_page([], [], [], None, 0.5, "c.csv").rows == []


@pytest.mark.parametrize("most", [0, 1, 3])
def test_there_are_at_most_so_many(most: int) -> None:
    rows = [site(name, recording("a.wav", 0, 0.5)) for name in "ABCD"]
    assert len(choose_recordings(rows, most)) == most


def run(rows: Path, out: Path, top: int = 3, detector=None, model: Path | None = None) -> None:
    sources = find_sources([rows], model)
    write_worklist(sources, WorklistFiles.named(out), WorklistRules(), top, detector)


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))


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
    assert re.search(r"2026-11-28: 5 of 5 sites judged, 1 of them .* 0\.50\.", text)
    saved = json.loads(re.findall(r'id="table">(.*)</script>', text)[0])
    assert [dict(zip(saved["columns"], row, strict=True)) for row in saved["rows"]] == confirm
    assert "1 new, 4 quiet" in messages.text
    for told in (text, messages.text):
        assert "(abc) is not at hand" in told
        assert "keeps no scores" not in told


def test_without_coordinates_there_is_no_map_and_an_old_one_goes(
    night_rows, tmp_path: Path
) -> None:
    run(night_rows(lat="52.5", lon="13.4"), tmp_path / "list.html")
    assert 'id="map"' in (tmp_path / "list.html").read_text()
    run(night_rows(), tmp_path / "list.html")
    assert 'id="map"' not in (tmp_path / "list.html").read_text()
    assert not (tmp_path / "list.geojson").exists()
    with pytest.raises(InputError, match="no site has coordinates"):
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
    for text in (messages.text, (tmp_path / "list.html").read_text()):
        assert re.search(rf"Not all .* {re.escape(str(folder))}", text)


def test_the_backlog_is_a_list_of_its_own_behind_the_news(
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
    assert re.search(r"news +1 site, rank 1: ", messages.text)
    assert re.search(r"backlog +1 site, rank 2: .*from the first night", messages.text)
    listed = [(row["site"], row["list"]) for row in table(tmp_path / "list.csv")[:3]]
    assert listed == [("B", "news"), ("C", "backlog"), ("A", "other")]
    text = (tmp_path / "list.html").read_text()
    assert '<option value="backlog">backlog (1)</option>' in text


def test_news_and_backlog_are_heard_in_turns() -> None:
    news, old, quiet = (
        [replace(site(f"{name}{n}", recording("a.wav", 0, 0.9)), list_name=name) for n in range(3)]
        for name in ("news", "backlog", "other")
    )
    chosen = choose_recordings([*news, *old, *quiet], 4)
    assert [(one.rank, one.row.site) for one in chosen] == [
        (1, "news0"), (2, "news1"), (4, "backlog0"), (5, "backlog1"),
    ]  # fmt: skip
    assert len(choose_recordings([*news, *quiet], 5)) == 5


def test_the_verdict_of_the_model_is_said_first(
    example_files, night_rows, tmp_path: Path, messages
) -> None:
    rows = night_rows()
    rows.write_text(rows.read_text().replace("abc", file_hash(example_files.model)))
    run(rows, tmp_path / "list.csv", model=example_files.model)
    lines = messages.text.splitlines()
    (said,) = [number for number, line in enumerate(lines) if "own evaluation" in line]
    assert said < next(number for number, line in enumerate(lines) if "sites    " in line)


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
    by_folds = {"verdict": {"split": "held_out"}}
    for card, kept, split, scores in (
        ({}, (None, None), None, []),
        ({}, (val, None), "validation", [0.1, 0.9]),
        ({}, (val, none), "validation", [0.1, 0.9]),
        ({}, (val, tested), "test", [0.1]),
        (by_folds, (val, tested), "folds", [0.1]),
    ):
        model = tmp_path / "model.safetensors"
        save_model(model, {}, card, validation=kept[0], tested=kept[1])
        found = evidence_of(None, model)
        assert (found.split if found else None) == split
        assert (found.scores.tolist() if found else []) == scores
        assert not found or found.is_leak.tolist() == [False, True][: len(scores)]
    assert evidence_of(None, tmp_path / "model.onnx") is None
