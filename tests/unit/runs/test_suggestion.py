"""predict --suggest: its table, its page, and what it refuses."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest

from leakdet.building.sources import from_manifest
from leakdet.core.errors import InputError
from leakdet.core.locations import Span
from leakdet.reporting import recording_card
from leakdet.runs import suggestion
from leakdet.runs.suggestion import SuggestionRun, SuspectsRun
from leakdet.scoring.detector import load_detector
from leakdet.tables.schema import InputRecording

COLUMNS = [
    "path", "label", "why_suggested", "leak_prob", "threshold", "decision", "reason",
    "familiarity", "duration_s", "source_rate_hz", "flags", "model",
]  # fmt: skip


@pytest.fixture
def detector(example_files):
    return load_detector(example_files.model, device="cpu")


@pytest.fixture
def sounds(write_sound) -> list[Path]:
    return [write_sound(f"in/{n}.wav", seconds=2.0 + n / 4, seed=n) for n in range(5)]


def suggested(detector, sounds: list[Path], most: int, out: Path | None) -> SuggestionRun:
    run = SuggestionRun(most, out)
    for verdict in detector.predict(sounds):
        run.add(verdict)
    run.write(detector)
    return run


def test_the_table_has_absolute_paths_and_empty_labels(
    detector, sounds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relative = [path.relative_to(tmp_path) for path in sounds]
    run = suggested(detector, relative, 3, Path("rows.csv"))
    assert (str(run.table), str(run.page)) == ("rows.confirm.csv", "rows.confirm.html")
    rows = list(csv.DictReader(run.table.read_text(encoding="utf-8-sig").splitlines()))
    assert list(rows[0]) == COLUMNS
    assert len(rows) == 3
    assert {row["path"] for row in rows} <= {str(path) for path in sounds}
    assert {row["label"] for row in rows} == {""}
    assert all(row["why_suggested"] for row in rows)
    of_path = {verdict.path: verdict for verdict in detector.predict(sounds)}
    for row in rows:  # rounded for people
        assert float(row["leak_prob"]) == pytest.approx(of_path[row["path"]].leak_prob, rel=5e-4)


def test_seconds_are_heard_and_confirmed_alone(
    detector, write_sound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path, run = write_sound("night.wav", seconds=6.0), SuggestionRun(2, Path("rows.csv"))
    columns = [{"start_s": start, "end_s": "3.5", "site": "A"} for start in ("0.5", "1.5")]
    for verdict in detector.predict_listed([InputRecording(path, of) for of in columns]):
        run.add(verdict)
    run.write(detector)
    rows = list(csv.DictReader(run.table.read_text(encoding="utf-8-sig").splitlines()))
    told = {(row["start_s"], row["end_s"], row["duration_s"]) for row in rows}
    assert told == {("0.5", "3.5", "3.0"), ("1.5", "3.5", "2.0")}
    filled = run.table.read_text(encoding="utf-8-sig").replace(",,", ",leak,", 1)
    run.table.write_text(filled)
    (listed,) = from_manifest(run.table).recordings
    assert listed.span in [Span(0.5, 3.5), Span(1.5, 3.5)]


def test_the_page_saves_the_rows_of_the_table(
    detector, sounds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "store").mkdir()
    card = detector.mel_detector.card
    monkeypatch.setitem(card, "training", {"store": str(tmp_path / "store")})
    run = suggested(detector, sounds, 4, tmp_path / "rows.csv")
    html = run.page.read_text(encoding="utf-8")
    table = json.loads(re.search(r'id="table">(.*)</script>', html)[1])
    rows = list(csv.reader(run.table.read_text(encoding="utf-8-sig").splitlines()))
    assert [table["columns"], *table["rows"]] == rows
    assert table["file"] == "rows.confirm.csv"
    assert f"leakdet learn {detector.path} rows.confirm.csv data.store=store<" in html
    assert html.count("<audio") == html.count("<img") == html.count("<fieldset") == 4


def test_a_full_page_says_which_sounds_are_left_out(
    detector, sounds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_card, "MAX_AUDIO_BYTES", 60_000)
    run = suggested(detector, sounds, 5, tmp_path / "rows.csv")
    html = run.page.read_text(encoding="utf-8")
    silent = 5 - html.count("<audio")
    assert 0 < silent < 5
    assert f"{silent} of them have no sound" in html


def test_files_that_are_gone_are_named_and_stay_in_the_table(
    detector, sounds, tmp_path: Path, messages
) -> None:
    run = SuggestionRun(5, tmp_path / "rows.csv")
    for verdict in detector.predict(sounds):
        run.add(verdict)
    sounds[2].unlink()
    run.write(detector)
    assert f"{sounds[2]}: no picture" in messages.text
    assert len(run.table.read_text().splitlines()) == 6
    assert run.page.read_text(encoding="utf-8").count("<audio") == 4


def test_nothing_to_suggest_writes_nothing(detector, tmp_path: Path, messages) -> None:
    (tmp_path / "bad.wav").write_text("no sound")
    run = suggested(detector, [tmp_path / "bad.wav"], 5, tmp_path / "rows.csv")
    assert not run.table.exists()
    assert not run.page.exists()
    assert "0 of 1 recordings (not suggested: 1 unreadable): nothing to suggest" in messages.text


def test_columns_of_a_list_become_groups_and_are_shown(detector, sounds, tmp_path: Path) -> None:
    from leakdet.building.sources import from_manifest
    from leakdet.tables.schema import InputRecording

    run = SuggestionRun(2, tmp_path / "rows.csv")
    columns = {"site": "mill", "recorded_at": "2026-11-20T02:00:00"}
    for verdict in detector.predict_listed(InputRecording(sound, columns) for sound in sounds):
        run.add(verdict)
    run.write(detector)
    text = run.table.read_text(encoding="utf-8-sig")
    assert text.startswith("path,label,why_suggested,site,recorded_at,leak_prob,")
    run.table.write_text(text.replace("wav,,", "wav,leak,"), encoding="utf-8-sig")
    found = from_manifest(run.table).recordings
    assert [recording.groups for recording in found] == [columns, columns]
    page = run.page.read_text(encoding="utf-8")
    assert page.count("2026-11-20T02:00:00") == 4  # of two recordings, seen and saved


def test_labels_that_were_filled_in_are_never_replaced(detector, sounds, tmp_path: Path) -> None:
    run = suggested(detector, sounds, 3, tmp_path / "rows.csv")
    suggested(detector, sounds, 2, tmp_path / "rows.csv")  # nothing was filled in
    text = run.table.read_text(encoding="utf-8-sig")
    run.table.write_text(text.replace("wav,,", "wav,leak,", 1), encoding="utf-8")
    with pytest.raises(InputError, match="1 of its 2 labels"):
        SuggestionRun(3, tmp_path / "rows.csv")
    by_excel = run.table.read_text(encoding="utf-8-sig").replace(",", ";")
    run.table.write_text(by_excel, encoding="utf-8-sig")
    with pytest.raises(InputError, match="1 of its 2 labels"):
        SuggestionRun(3, tmp_path / "rows.csv")
    run.table.write_text("path,label\na.wav,leak\n")
    with pytest.raises(InputError, match="did not write it"):
        SuggestionRun(3, tmp_path / "rows.csv")


def test_a_manifest_of_confirmed_labels_makes_no_groups(detector, sounds, tmp_path: Path) -> None:
    from leakdet.building.sources import from_manifest

    run = suggested(detector, sounds, 3, tmp_path / "rows.csv")
    text = run.table.read_text(encoding="utf-8-sig").replace("wav,,", "wav,dry_hole,")
    saved = tmp_path / "elsewhere" / "confirmed.csv"
    saved.parent.mkdir()
    saved.write_text(text, encoding="utf-8")
    source = from_manifest(saved)
    assert [recording.label for recording in source.recordings] == ["dry_hole"] * 3
    assert {recording.path for recording in source.recordings} <= set(sounds)
    assert all(recording.groups == {} for recording in source.recordings)


def test_predict_names_both_files(door, example_files, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a.wav", "b.wav"):
        shutil.copy(example_files.recording, tmp_path / "in" / name)
    result = door("predict", example_files.model, "in", "--suggest", "2", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("\n") == 3  # rows alone
    assert "confirm.html" in result.stderr
    assert re.search("1 of 2 recordings; .*copies", result.stderr)
    assert (tmp_path / "confirm.csv").read_text().count("\n") == 2
    for number in ("0", "201", "many"):
        result = door("predict", example_files.model, "in", "--suggest", number, cwd=tmp_path)
        assert (result.returncode, "allowed are 1 to 200" in result.stderr) == (2, True)


def suspects(detector, sounds: list[Path], page: Path) -> SuspectsRun:
    run = SuspectsRun(page)
    for verdict in detector.predict(sounds):
        run.add(verdict)
    run.write(detector)
    return run


def test_a_page_shows_the_most_suspicious_first(
    detector, sounds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages
) -> None:
    monkeypatch.setattr(suggestion, "PAGE_CARDS", 3)
    gone = tmp_path / "gone.wav"
    page = tmp_path / "night.html"
    suspects(detector, [*sounds, gone], page)
    html = page.read_text(encoding="utf-8")
    scores = {verdict.path: verdict.leak_prob for verdict in detector.predict(sounds)}
    expected = sorted(scores, key=lambda path: -scores[path])[:3]
    table = json.loads(re.search(r'id="table">(.*)</script>', html)[1])
    assert [row[0] for row in table["rows"]] == expected
    assert table["file"] == "night.confirm.csv"
    assert "3 of 6 recordings, the most suspicious first (5 have a score)" in html
    assert html.count("<audio") == html.count('class="played"') == 3
    assert "night.html" in messages.text
    suspects(detector, sounds[:1], page)  # its own page is replaced


def test_a_page_that_predict_did_not_write_stays(detector, tmp_path: Path) -> None:
    other = tmp_path / "other.html"
    other.write_text("<html>")
    with pytest.raises(InputError, match=r"other\.html: .*would replace it"):
        SuspectsRun(other)
    with pytest.raises(InputError, match=r"\.html"):
        SuspectsRun(tmp_path / "night.csv")
    run = SuspectsRun(tmp_path / "none.html")
    run.write(detector)
    assert not run.page.exists()
