"""Manifests as sources of predict: what they tell, and what is wrong with them."""

import re
from pathlib import Path

import pytest

from leakdet.core.errors import InputError
from leakdet.core.locations import Span
from leakdet.scoring.listing import RecordingTable, is_table_name, list_files


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("lists").mkdir()
    for name in ("a.wav", "lists/a.wav", "b.wav"):
        Path(name).touch()
    return tmp_path


def table(text: str, encoding: str = "utf-8") -> RecordingTable:
    path = Path("lists/night.csv")
    path.write_bytes(text.encode(encoding))
    return RecordingTable(path)


def test_columns_go_on_and_files_are_found_beside_the_table_or_here(folder: Path) -> None:
    read = table("path,site,recorded_at,lat\na.wav,north,17.5.2026 1:30,50.1\nb.wav, south ,,\n")
    assert read.columns == ("site", "recorded_at", "lat")
    first = {"site": "north", "recorded_at": "2026-05-17T01:30:00", "lat": "50.1"}
    second = {"site": "south", "recorded_at": "", "lat": ""}
    expected = [(Path("lists/a.wav"), first, ""), (Path("b.wav"), second, "")]
    assert list(read) == list(read) == expected
    assert read.losses() == read.notes() == []


def test_no_column_takes_a_signature_along() -> None:
    read = table("path,file_url,note\na.wav,https://h/a.wav?X-Amz-Signature=5e,a?b=c\n")
    assert [columns for _, columns, _ in read] == [{"file_url": "https://h/a.wav", "note": "a?b=c"}]


def test_a_missing_file_gives_a_recording_with_an_error(folder: Path) -> None:
    ((path, columns, error),) = table("path,site\nc.wav,north\n")
    assert (path, columns) == (Path("c.wav"), {"site": "north"})
    assert error.startswith("no such file")
    assert error.endswith(f"{folder} (lists/night.csv, line 2)")


def test_a_table_to_learn_from_is_taken_without_what_leakdet_writes() -> None:
    read = table("path,label,why_suggested,leak_prob,prob_ok,site\na.wav,leak,x,0.5,0.2,north\n")
    assert [columns for _, columns, _ in read] == [{"site": "north"}]
    (note,) = read.notes()
    assert note.endswith("writes such itself: label, why_suggested, leak_prob, prob_ok")


def test_seconds_go_on_as_columns_and_faulty_ones_are_named() -> None:
    read = table('path,start_time,end_time\na.wav,1,"2,5"\na.wav,,\na.wav,2,1\na.wav,x,3\n')
    spans = [(columns["start_s"], columns["end_s"]) for _, columns, _ in read]
    assert spans == [("1.0", "2.5"), ("", "")]
    assert read.columns == ("start_s", "end_s")
    (note,) = read.notes()
    assert note.startswith("start_time and end_time of night.csv are seconds")
    (loss,) = read.losses()
    assert "line 4: its end at 1 s" in loss
    assert "line 5: start 'x'" in loss


def test_a_label_track_is_a_list_and_other_texts_are_none(folder: Path) -> None:
    Path("a.txt").write_text("0.5\t1.0\tleak\n1.0\t2.0\t\n")
    Path("b.txt").write_text("a note\n")
    listed = list_files(["a.txt"]).recordings
    assert [(recording.source, recording.span) for recording in listed] == [
        (Path("a.wav"), Span(0.5, 1.0)),
        (Path("a.wav"), Span(1.0, 2.0)),
    ]
    assert not is_table_name("b.txt")


def test_times_of_a_night_are_no_seconds() -> None:
    read = table("path,start,end\na.wav,2026-05-17T01:30,2026-05-17T01:40\n")
    assert read.columns == ("start", "end")
    assert not read.notes()


def test_faulty_lines_and_times_are_named() -> None:
    read = table("path;recorded_at\na.wav;12/02/2026\n;2026-12-02\na.wav\nb.wav;\n")
    told = [columns["recorded_at"] for _, columns, _ in read]
    assert told == ["12/02/2026", ""]
    (loss,) = read.losses()
    assert re.search(
        r"2 lines of lists/night\.csv: line 3: .*empty, line 4: .*1 field, not 2", loss
    )
    (note,) = read.notes()
    assert note.startswith("recorded_at 12/02/2026 of lists/night.csv (1 rows)")


def test_tables_of_spreadsheets_are_read() -> None:
    read = table("path;site\r\na.wav;M\u00fchle\r\n;\r\n", "cp1252")
    assert [columns for _, columns, _ in read] == [{"site": "M\u00fchle"}]
    assert "was read as Windows-1252" in read.notes()[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,site\n", "column path, .* it has no path, but file, site"),
        ("path,site,site\n", r"columns \['site'\] .*repeated"),
        ("path,,site\n", r"columns \[''\] are unnamed"),
    ],
)
def test_headings_that_cannot_be_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        table(text)
