"""Which files a work list writes, and that it replaces nothing but its own."""

from pathlib import Path

import pytest

from leakdet.errors import InputError
from leakdet.reporting.worklist_page import GENERATOR
from leakdet.reporting.worklist_tables import BEGINNING, CREATED_BY
from leakdet.worklist_files import WorklistFiles

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
    with pytest.raises(InputError, match=f"{name}: leakdet worklist would replace it, and did not"):
        WorklistFiles.named(tmp_path / "list.html").check()


def test_labels_that_were_filled_in_stay(tmp_path: Path) -> None:
    table = tmp_path / "list.confirm.csv"
    table.write_text(OWN[table.name].replace(",,", ",leak,"))
    with pytest.raises(InputError, match="1 of its 1 labels are filled in"):
        WorklistFiles.named(tmp_path / "list.html").check()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("list.pdf", "end the name with .html"),
        ("nowhere/list.html", "there is no folder"),
        ("folder.html", "no device and no folder"),
    ],
)
def test_names_that_cannot_be_written(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InputError, match=reason):
        WorklistFiles.named(tmp_path / name).check()
