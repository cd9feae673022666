import threading
from pathlib import Path
from typing import Any

import pytest
from tests.unit.serving.conftest import Client

from leakdet.building.sources import from_manifest
from leakdet.core.errors import InputError
from leakdet.learning.inputs import Vocabulary, read_confirmed
from leakdet.serving.engine import Engine
from leakdet.serving.workbench import MAX_RECORDINGS, Workbench
from leakdet.tables.read import read_table


def ticked(client: Client, sounds: list[Path], labels: list[str]) -> list[dict[str, Any]]:
    client.drop(*sounds)
    rows = sorted(client.state()["rows"], key=lambda row: str(row["name"]))
    for row, label in zip(rows, labels, strict=False):
        answer = client.ask("/do/tick", {"row": row["id"], "label": label})
        assert answer.status == 200, answer.body
    return rows


def test_ticks_are_the_table_that_learn_reads_with_their_sounds(
    client: Client, sounds: list[Path], tmp_path: Path
) -> None:
    client.ask("/do/pattern", {"pattern": "{site}_{recorded_at:%Y%m%d_%H%M}"})
    rows = ticked(client, sounds, ["leak", "no_leak", "dry_hole", "not_sure"])
    table = tmp_path / "work/confirm.csv"
    read = [row for _, row in read_table(table).rows]
    assert [row["label"] for row in read] == ["leak", "no_leak", "dry_hole", ""]
    assert read[0]["site"] == "s0"
    confirmed = read_confirmed(table, Vocabulary(("leak", "other"), ("leak",)))
    assert [recording.label for recording in confirmed.source.recordings] == [
        "leak",
        "other",
        "other",
    ]
    assert confirmed.unconfirmed == 1
    for row, sound in zip(read, sounds, strict=False):
        assert (table.parent / row["path"]).read_bytes() == sound.read_bytes()
    client.ask("/do/tick", {"row": rows[0]["id"], "label": ""})
    assert len(read_table(table).rows) == 3
    assert len(list((tmp_path / "work/sounds").iterdir())) == 3
    wrong = client.ask("/do/tick", {"row": rows[0]["id"], "label": "burst"})
    assert (wrong.status, "burst" in wrong.error) == (400, True)


def test_a_new_server_goes_on_with_the_ticks_of_a_killed_one(
    serving: Any, sounds: list[Path], tmp_path: Path
) -> None:
    first = serving()
    ticked(first, sounds, ["leak", "no_leak", "not_sure"])
    uploads = tmp_path / "work/uploads"
    assert len(list(uploads.iterdir())) == 6
    again = serving()  # as after kill -9: nothing of the first was closed
    state = again.wait()
    assert sorted(row["label"] for row in again.state()["rows"]) == ["leak", "no_leak", "not_sure"]
    assert len(list(uploads.iterdir())) == 3
    assert all(row["prob"] is not None for row in again.state()["rows"])
    assert state["labels"] == {"leak": 1, "no_leak": 1, "not_sure": 1}
    again.drop(*sounds)  # those that were ticked are known again
    assert again.state()["recordings"] == 6
    assert sum(bool(row["label"]) for row in again.state()["rows"]) == 3
    again.service.close()
    assert not uploads.exists()
    assert len(list((tmp_path / "work/sounds").iterdir())) == 3


def test_a_tick_that_cannot_be_written_is_not_shown(
    client: Client, sounds: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_csv(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    client.drop(sounds[0])
    monkeypatch.setattr("leakdet.serving.workbench.write_csv", write_csv)
    (row,) = client.state()["rows"]
    assert client.ask("/do/tick", {"row": row["id"], "label": "leak"}).status == 503
    assert client.state()["labels"] == {}
    monkeypatch.undo()
    assert client.ask("/do/tick", {"row": row["id"], "label": "leak"}).status == 200
    assert client.state()["labels"] == {"leak": 1}


def test_two_tabs_see_each_others_ticks(client: Client, sounds: list[Path]) -> None:
    (row, *_) = ticked(client, sounds[:1], [])
    before = client.state()["version"]
    client.ask("/do/tick", {"row": row["id"], "label": "leak"})
    other_tab = client.ask("/state", since=before).json
    assert [row["label"] for row in other_tab["rows"]] == ["leak"]


def test_ticks_from_many_threads_are_all_there(
    client: Client, sounds: list[Path], tmp_path: Path
) -> None:
    rows = ticked(client, sounds, [])
    bench = client.service.bench
    threads = [
        threading.Thread(target=bench.tick, args=(row["id"], label))
        for row in rows
        for label in ("no_leak", "leak")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = tmp_path / "work/confirm.csv"
    assert len(from_manifest(table).recordings) == 6
    assert not [path for path in table.parent.iterdir() if path.name.startswith(".confirm")]


def test_a_failed_recording_says_why_and_cannot_be_ticked(client: Client) -> None:
    client.ask("/sounds", b"no sound", name="a.wav")
    client.wait()
    (row,) = client.state()["rows"]
    assert row["decision"] == "failed"
    assert row["to_do"]
    assert client.ask("/do/tick", {"row": row["id"], "label": "leak"}).status == 400
    assert client.ask(f"/card/{row['id']}").status == 200


def test_another_model_scores_all_recordings_again(
    client: Client, sounds: list[Path], trained: Any
) -> None:
    client.drop(*sounds[:2])
    before = {row["id"]: row["prob"] for row in client.state()["rows"]}
    client.service.use(trained.model)
    client.service.bench.rescore()
    client.wait()
    state = client.state()
    assert {row["id"] for row in state["rows"]} == set(before)
    assert [row["prob"] for row in state["rows"]] != [before[row["id"]] for row in state["rows"]]
    assert state["model"]["synthetic"]


def test_the_page_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakdet.serving.workbench.MAX_RECORDINGS", 1)
    bench = Workbench(tmp_path, Engine())
    bench.open()
    bench.add(Path("a.wav"), "a", "a.wav")
    with pytest.raises(InputError, match="takes no more"):
        bench.add(Path("b.wav"), "b", "b.wav")
    assert MAX_RECORDINGS == 5_000


def test_a_table_of_other_origin_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "confirm.csv").write_text("path,label\nmine.wav,leak\n")
    with pytest.raises(InputError, match="did not write it"):
        Workbench(tmp_path, Engine()).open()
    (tmp_path / "confirm.csv").write_text("path,label,why_suggested\nmine.wav,leak,known\n")
    bench = Workbench(tmp_path, Engine())
    bench.open()  # a row that was added by hand stays
    assert bench.facts()["labels"] == {"leak": 1}


def test_stopping_while_recordings_come_blocks_nobody(client: Client) -> None:
    client.service.engine._detector = None  # all of them wait
    bench, rounds = client.service.bench, range(300)
    adding = threading.Thread(
        target=lambda: [bench.add(Path(f"{n}.wav"), str(n), str(n)) for n in rounds], daemon=True
    )
    stopping = threading.Thread(target=lambda: [bench.stop() for _ in rounds], daemon=True)
    for thread in (adding, stopping):
        thread.start()
    for thread in (adding, stopping):
        thread.join(30)
        assert not thread.is_alive()
    bench.stop()
    assert client.state()["decisions"] == {"stopped": 300}
