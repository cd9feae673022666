import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.unit.serving.conftest import Client

from leakdet.core.errors import InputError
from leakdet.scoring.detector import Detector, load_detector
from leakdet.serving.jobs import Job, Jobs
from leakdet.serving.places import Places
from leakdet.serving.server import work_folder
from leakdet.serving.service import Service, newest_run


def ended(jobs: Jobs) -> Job:
    until = time.monotonic() + 60
    while jobs.latest is None or jobs.latest.running:
        assert time.monotonic() < until
        time.sleep(0.02)
    return jobs.latest


def test_a_job_that_fails_says_so_in_the_sentence_of_the_shell(client: Client) -> None:
    jobs = client.service.jobs
    jobs.start(
        "rank", "ranking sites", ["worklist", "nowhere.csv", "--log", "json"], lambda _: None
    )
    again = client.ask("/do/learn", {})
    assert "ticked" in again.error  # before it is at work
    with pytest.raises(Exception, match="still at work"):
        jobs.start("learn", "learning", [], lambda _: None)
    job = ended(jobs)
    assert "nowhere.csv" in job.error
    assert client.state()["job"]["error"] == job.error


def test_a_job_ends_with_its_server(client: Client) -> None:
    jobs = client.service.jobs
    fifo = client.service.bench.folder / "rows.csv"
    os.mkfifo(fifo)  # nobody writes: the verb waits
    jobs.start("rank", "ranking sites", ["predict", str(fifo), str(fifo)], lambda _: None)
    until = time.monotonic() + 30
    while jobs._process is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    child = psutil.Process(jobs._process.pid)
    jobs.end()
    assert not child.is_running()
    assert jobs.latest is not None
    assert jobs.latest.error


def test_the_log_of_a_verb_becomes_progress() -> None:
    job = Job("learn", "learning")
    for line in (
        '{"kind":"progress","message":"2/5 trainings","done":2,"total":5}',
        "no JSON",
        '{"a":1}',
        "3",
    ):
        job.read_line(line)
    assert (job.done, job.total, job.progress) == (2, 5, "2/5 trainings")
    job.read_line('{"kind":"error","message":"too few"}')
    assert job.error == "too few"


@pytest.fixture
def learnt(
    client: Client, tmp_path: Path, example_files: Any, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], list[str]]:
    """`learnt(verdict)` learns by a stand-in that leaves what learn leaves; gives its words."""

    def learn(verdict: str) -> list[str]:
        words: list[str] = []

        def process(self: Jobs, job: Job, given: list[str]) -> int:
            words.extend(given)
            folder = Path(given[3].partition("=")[2].strip("'"))
            folder.mkdir(parents=True)
            shutil.copy(example_files.model, folder / "model.safetensors")
            outcome = {"verdict": verdict, "sentence": f"The new model is {verdict}."}
            (folder / "metrics.json").write_text(json.dumps({"learn": outcome}))
            (folder / "report.html").write_text("both")
            return 0

        monkeypatch.setattr(Jobs, "_process_of", process)
        client.service.bench.table.write_text("path,label,why_suggested\n")
        assert client.ask("/do/learn", {}).status == 200
        ended(client.service.jobs)
        return words

    return learn


def test_a_better_model_may_be_used_and_scores_again(
    client: Client, learnt: Callable[[str], list[str]], sounds: list[Path], tmp_path: Path
) -> None:
    client.drop(sounds[0])
    words = learnt("better")
    assert words[:3] == [
        "learn", f"model='{client.service.engine.detector.path}'", f"learn.new='{tmp_path}/work/confirm.csv'",
    ]  # fmt: skip
    job = client.state()["job"]
    assert (job["learnt"]["sentence"], job["may_switch"]) == ("The new model is better.", True)
    assert client.ask(f"/look/{client.keys.look}/{job['report']}").body == b"both"
    assert client.ask("/do/switch", {}).status == 200
    state = client.wait()
    assert state["model"]["path"] == f"{job['model_path']}/model.safetensors"
    assert state["job"]["may_switch"] is False
    assert client.state()["rows"][0]["prob"] is not None
    assert client.ask("/do/switch", {}).status == 409


def test_a_path_with_a_quote_reaches_learn_whole(
    client: Client, learnt: Callable[[str], list[str]], tmp_path: Path
) -> None:
    client.service.bench.table = tmp_path / "it's.csv"
    assert learnt("worse")[2] == f"learn.new='{tmp_path}/it\\'s.csv'"


def test_a_worse_model_is_not_offered(client: Client, learnt: Callable[[str], list[str]]) -> None:
    learnt("worse")
    assert client.state()["job"]["may_switch"] is False
    assert client.ask("/do/switch", {}).status == 409


def test_the_rows_of_the_page_become_a_work_list(
    client: Client, sounds: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leakdet.runs.worklist import find_sources

    client.ask("/do/pattern", {"pattern": "{site}_{recorded_at:%Y%m%d_%H%M}"})
    client.drop(*sounds[:2])
    words: list[str] = []
    monkeypatch.setattr(Jobs, "_process_of", lambda self, job, given: words.extend(given) or 0)
    assert client.ask("/do/rank", {"place": -1}).status == 200
    ended(client.service.jobs)
    sources = find_sources([Path(words[1])], None)
    assert sources.model == Path(str(client.service.engine.detector.path))
    assert client.ask("/do/rank", {"place": 0}).status == 404


def test_rows_of_named_folders_are_offered(serving: Any, tmp_path: Path) -> None:
    folder = tmp_path / "nights"
    (folder / "parts").mkdir(parents=True)
    (folder / "parts/parts.json").write_text("{}")
    (folder / "rows.csv").write_text("path,decision\n")
    (folder / "rows.csv.json").write_text("{}")
    (folder / "other.csv").write_text("a\n")
    client = serving(folder)
    rows = [Path(place).name for place in client.ask("/places").json["rows"]]
    assert rows == ["rows.csv", "parts"]


def test_without_a_model_the_demo_trains_one_and_the_page_says_so(
    serving: Any, sounds: list[Path], trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins: list[Callable[[], None]] = []

    def start(self: Jobs, kind: str, title: str, words: Any, finish: Callable[[Job], None]) -> None:
        job = self.latest = Job(kind, title, running=False)
        begins.append(lambda: finish(job))

    monkeypatch.setattr(Jobs, "start", start)
    client = serving(model=None)
    client.ask("/sounds", sounds[0].read_bytes(), name="a.wav")
    state = client.state()
    assert (state["model"], state["waiting"]) == (None, 1)
    assert "synthetic" in state["job"]["title"]
    run = tmp_path / "runs/train/now"
    run.mkdir(parents=True)
    shutil.copy(trained.model, run / "model.safetensors")
    begins[0]()
    state = client.wait()
    assert state["model"]["synthetic"]
    assert client.ask("/v1/model").json["synthetic"]


def test_the_newest_run_is_taken(tmp_path: Path) -> None:
    assert newest_run(tmp_path / "runs") is None
    for age, name in enumerate(("train/b", "learn/a")):
        run = tmp_path / "runs" / name
        run.mkdir(parents=True)
        (run / "model.safetensors").write_bytes(b"")
        os.utime(run / "model.safetensors", (1000 - age, 1000 - age))
    newest = newest_run(tmp_path / "runs")
    assert newest is not None
    assert newest.parent.name == "b"


def test_ticks_lie_beside_the_model_that_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    model = tmp_path / "run/model.safetensors"
    model.write_bytes(b"")
    link = tmp_path / "current.safetensors"
    link.symlink_to(model)
    assert work_folder(None, link) == tmp_path / "run/leakdet-work"
    assert work_folder(tmp_path / "own", link) == tmp_path / "own"


def test_places_are_inside_or_not(tmp_path: Path) -> None:
    places = Places([tmp_path / "a"], tmp_path / "runs", tmp_path / "work")
    assert places.inside(tmp_path / "a/b/../c.wav")
    assert not places.inside(tmp_path / "a/../secret")
    assert not places.inside(tmp_path / "ab")


def test_a_table_of_someone_else_stops_the_start(tmp_path: Path, example_files: Any) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/confirm.csv").write_text("path,label\n")
    service = Service(Places([], tmp_path / "runs", tmp_path / "work"), "cpu", [])
    with pytest.raises(InputError, match="did not write it"):
        service.open(example_files.model)
    service.close()
    assert (tmp_path / "work/confirm.csv").exists()


def test_a_model_that_cannot_score_sound_is_refused(
    tmp_path: Path, example_files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = load_detector(example_files.model, "cpu")
    deaf = Detector(replace(detector.mel_detector, signal=None), detector.path)
    monkeypatch.setattr("leakdet.serving.service.load_detector", lambda *_: deaf)
    service = Service(Places([], tmp_path / "runs", tmp_path / "work"), "cpu", [])
    try:
        with pytest.raises(InputError, match="cannot score audio"):
            service.open(example_files.model)
    finally:
        service.close()
