import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from tests.unit.serving.conftest import Client

from leakdet.serving.pages import WHAT_TO_DO, familiarity_words
from leakdet.serving.uploads import safe_name, shown_name
from leakdet.tables.schema import Reason


def test_rows_come_the_most_suspicious_first_and_a_filter_is_in_the_downloads(
    client: Client, sounds: list[Path], write_sound: Callable[..., Path]
) -> None:
    client.drop(*sounds, write_sound("short.wav", 0.1, 4000))
    state = client.state()
    probs = [row["prob"] for row in state["rows"] if row["prob"] is not None]
    assert probs == sorted(probs, reverse=True)
    assert (state["recordings"], state["waiting"], len(state["rows"])) == (7, 0, 7)
    (short,) = client.state(decision="undecided")["rows"]
    assert (short["name"], "record longer" in short["to_do"]) == ("short.wav", True)
    rows = list(
        csv.DictReader(io.StringIO(client.ask("/rows.csv", text="s3_").body.decode("utf-8-sig")))
    )
    assert [row["path"] for row in rows] == ["s3_20261120_0330.wav"]
    assert rows[0]["decision"] in ("leak", "no_leak")
    book = openpyxl.load_workbook(io.BytesIO(client.ask("/rows.xlsx").body))
    assert len(list(book.worksheets[0].rows)) == 8
    assert client.ask("/rows.pdf").status == 404


def test_nothing_is_sent_again_while_nothing_changes(client: Client, sounds: list[Path]) -> None:
    client.drop(sounds[0])
    state = client.state()
    assert "rows" not in client.ask("/state", since=state["version"]).json
    client.drop(sounds[0])  # which is there
    assert client.state()["recordings"] == 1


def test_a_card_has_picture_sound_and_what_is_known_and_escapes_names(
    client: Client, sounds: list[Path]
) -> None:
    name = "<img src=x onerror=alert(1)>.wav"
    assert client.ask("/sounds", sounds[0].read_bytes(), name=name).status == 200
    (row,) = client.wait()["rows"]
    page = client.ask(f"/card/{row['id']}").body.decode()
    for fact in ("data:image/png", "<audio", "familiarity", "0.5", "4000 Hz"):
        assert fact in page
    assert "<img src=x" not in page
    assert "&lt;img" in page
    assert client.ask("/card/99.0").status == 400


def test_the_page_names_folders_and_what_the_model_is_worth(serving: Any, tmp_path: Path) -> None:
    folder = tmp_path / "<night>"
    folder.mkdir()
    client = serving(folder)
    page = client.ask("/").body.decode()
    assert "&lt;night&gt;" in page
    assert "http" not in page.replace("http-equiv", "")
    assert client.state()["model"]["label"] == "Not judged"
    assert b".verdict" in client.ask("/page.css").body
    assert client.ask("/page.js").headers["content-type"].startswith("text/javascript")


def test_a_list_or_the_names_tell_sites_and_times(
    client: Client, sounds: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = b"path,site,recorded_at\nC:\\night\\s0_20261120_0030.wav,B7,20.11.2026 02:30\ns3://bucket/x.wav,Q,\n"
    assert client.ask("/sounds", told, name="night.csv").json == {"listed": 2}
    client.drop(*sounds[:2])
    assert client.state()["sites"] == ["B7"]
    assert client.ask("/do/pattern", {"pattern": "{site}_{recorded_at:%Y%m%d_%H%M}"}).status == 200
    state = client.state()
    assert (state["sites"], state["dated"]) == (["B7", "s1"], True)
    (row,) = client.state(site="s1")["rows"]
    assert row["name"] == sounds[1].name
    wrong = client.ask("/do/pattern", {"pattern": "{site"})
    assert (wrong.status, "{site" in wrong.error) == (400, True)
    other = client.ask("/do/pattern", {"pattern": "{site}-{recorded_at:%Y}"})
    assert (other.status, sounds[0].name in other.error) == (400, True)
    monkeypatch.setattr("leakdet.serving.pages.MAX_LIST_BYTES", 10)
    assert client.ask("/sounds", told, name="night.csv").status == 413
    monkeypatch.undo()
    no_list = client.ask("/sounds", b"site\nA\n", name="no.csv")
    assert (no_list.status, no_list.error.startswith("no.csv: a list needs the column path")) == (
        400,
        True,
    )


def test_a_list_of_folders_with_the_same_names_gives_no_recording_the_site_of_another(
    client: Client, sounds: list[Path]
) -> None:
    told = b"path,site\nmay/B7.wav,north\njune/B7.wav,south\nmay/Q.wav,east\n"
    assert client.ask("/sounds", told, name="list.csv").json == {"listed": 3}
    names = ("in/june/B7.wav", "may/B7.wav", "B7.wav", "Q.wav")
    for name, sound in zip(names, sounds, strict=False):
        client.ask("/sounds", sound.read_bytes(), name=name)
    client.wait()
    sites = {row["name"]: row["site"] for row in client.state()["rows"]}
    assert sites == dict(zip(names, ("south", "north", "", "east"), strict=True))


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("a.csv", b"path,start,end\na.wav,1,2\n", "start and end are seconds"),
        ("b.csv", b'path,"\n\n', "never closed"),
        ("c.xlsx", b"PK\x03\x04", "not a whole Excel workbook"),
    ],
)
def test_a_list_that_cannot_be_taken_is_named_as_it_was_dropped(
    client: Client, name: str, content: bytes, facts: str
) -> None:
    answer = client.ask("/sounds", content, name=name)
    assert (answer.status, answer.error.startswith(name), facts in answer.error) == (
        400,
        True,
        True,
    )


def test_a_folder_is_scored_with_its_list_but_not_what_its_links_lead_to(
    serving: Any, sounds: list[Path], tmp_path: Path
) -> None:
    folder = sounds[0].parent
    outside = tmp_path / "outside"
    outside.mkdir()
    sounds[5].rename(outside / "secret.wav")
    (folder / "link.wav").symlink_to(outside / "secret.wav")
    (folder / "links").symlink_to(outside)
    (folder / ".hidden.wav").write_bytes(b"")
    (folder / "list.csv").write_text("path,site\ns1_20261120_0130.wav,A\n")
    (folder / "other.csv").write_text("a,b\n1,2\n")
    client = serving(folder)
    assert client.ask("/do/folder", {"folder": 0}).status == 200
    state = client.wait()
    names = {Path(row["name"]).name for row in client.state()["rows"]}
    assert names == {sound.name for sound in sounds[:5]}
    assert state["sites"] == ["A"]
    assert client.ask("/do/folder", {"folder": 1}).status == 404


def test_stopped_recordings_wait_until_they_are_dropped_again(
    client: Client, sounds: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = client.service.engine
    detector, engine._detector = engine._detector, None
    for sound in sounds[:3]:
        client.ask("/sounds", sound.read_bytes(), name=sound.name)
    assert client.state()["waiting"] == 3
    client.ask("/do/stop", {})
    assert {row["decision"] for row in client.state()["rows"]} == {"stopped"}
    engine.use(detector)
    client.drop(sounds[0])
    assert client.state()["decisions"]["stopped"] == 2


def test_reports_are_shown_apart_and_nothing_beside_them(client: Client, tmp_path: Path) -> None:
    run = tmp_path / "runs/train/first"
    run.mkdir(parents=True)
    (run / "report.html").write_text("<p>the report")
    (run / "model.safetensors").write_bytes(b"x")
    secret = tmp_path / "secret.html"
    secret.write_text("secret")
    (run / "worklist.html").symlink_to(secret)
    places = client.ask("/places").json
    (page,) = places["pages"]
    answer = client.ask(page["url"], headers={"cookie": ""})
    assert answer.body == b"<p>the report"
    assert answer.headers["content-security-policy"].startswith("sandbox allow-scripts")
    base = page["url"].removesuffix("report.html")
    for name in (
        "worklist.html",
        "model.safetensors",
        "../../../secret.html",
        str(secret),
        "\0.html",
        "x" * 5000 + ".html",
    ):
        assert client.ask(base + name).status == 404, name
    assert client.ask(page["url"].replace("/look/", "/look/x")).status == 401
    assert client.ask("/look/").status == 401


@pytest.mark.parametrize(
    ("given", "shown", "safe"),
    [
        ("a.wav", "a.wav", "a.wav"),
        ("../../etc/passwd", "etc/passwd", "passwd"),
        ("night\\B7.wav", "night/B7.wav", "B7.wav"),
        ("\x00\x1b[31m.wav", "[31m.wav", "_31m.wav"),
        ("Prüfung ß.wav", "Prüfung ß.wav", "Prüfung ß.wav"),
        ("-rf", "-rf", "_-rf"),
        ("..", "sound", "sound"),
        ("x" * 500 + ".wav", "x" * 116 + ".wav", "x" * 116 + ".wav"),
        ("漏" * 100 + ".wav", "漏" * 100 + ".wav", "漏" * 38 + ".wav"),
    ],
)
def test_names_are_safe_on_a_disk(given: str, shown: str, safe: str) -> None:
    assert shown_name(given) == shown
    assert safe_name(given) == safe


def test_every_reason_says_what_to_do() -> None:
    assert set(WHAT_TO_DO) == {*Reason.__args__} - {""}  # type: ignore[attr-defined]
    assert familiarity_words(None) == "unknown"
