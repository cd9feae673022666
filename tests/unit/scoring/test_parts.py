import argparse
import errno
import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from leakdet.core.errors import InputError
from leakdet.core.files import locked
from leakdet.core.locations import RemoteFile
from leakdet.core.parallel import Engine, KillsWorkersError
from leakdet.detection.familiarity import SpectralReference
from leakdet.detection.source_rates import SourceRates
from leakdet.scoring.detector import Detector, load_detector
from leakdet.scoring.parts import (
    IN_FLIGHT,
    KIND,
    ModelOptions,
    PartsFolder,
    Rows,
    _listed,
    by_cluster,
    by_threads,
    parts_folder,
    score_batch,
)
from leakdet.storage.model_card import file_hash
from leakdet.storage.model_file import save_model
from leakdet.tables.parts_db import FileBatch, ListingRecord
from leakdet.tables.read import read_rows
from leakdet.tables.schema import InputRecording

SETTINGS = {"threshold": None, "policy": None, "unfamiliar": None, "format": "csv"}
FACTS = {
    "batch_files": 2,
    "columns": ["path", "decision", "reason", "flags"],
    "created_by": "leakdet 0.0.1",
    "model": {"hash": "0123456789ab", "path": "/models/a.safetensors"},
    "settings": {**SETTINGS, "device": "cpu"},
}
ROW = {"decision": "leak", "reason": "", "flags": "clipped"}


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A folder of two parts, three files."""
    path = tmp_path / "parts"
    with (
        mock.patch("leakdet.scoring.parts.BATCH_FILES", 2),
        parts_folder(path) as folder,
    ):
        first, files, _ = folder.db.add(InputRecording(Path(f"/x/{name}")) for name in "abc")
        folder.db.commit(ListingRecord(first, files, "now", ["/x"], [], [], True))
        folder.facts = dict(FACTS)
        folder.write_facts()
        publish(folder)
        folder.write_facts(files=3)
    return path


def publish(folder: PartsFolder) -> list[int]:
    """Publish what has no part; gives the numbers."""
    batches = list(folder.db.batches())
    for batch in batches:
        folder.publish(batch.number, [{"path": path, **ROW} for path in batch.paths])
    return [batch.number for batch in batches]


def test_parts_are_published_whole_and_recorded(begun: Path) -> None:
    assert {path.name for path in begun.iterdir()} == {
        "lock",
        "part-00000.csv",
        "part-00001.csv",
        "parts.json",
        "recordings.sqlite",
    }
    assert read_rows(begun)["path"].tolist() == ["/x/a", "/x/b", "/x/c"]
    with parts_folder(begun) as folder:
        assert folder.is_finished
        assert (folder.facts, folder.db.batch_files) == (FACTS, 2)
        folder.repair()
        assert publish(folder) == []
        assert [counts["decisions"]["leak"] for counts in folder.db.counts()] == [2, 1]


@pytest.mark.parametrize(
    ("damage", "kept"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), True),
        (lambda path: path.write_text("\n".join(path.read_text().splitlines()[:2])), True),
        (lambda path: path.write_text(path.read_text().replace("leak", "no_leak")), True),
        (lambda path: path.write_bytes(b""), True),
        (lambda path: path.unlink(), False),
    ],
)
def test_a_part_that_is_not_as_it_was_written_is_scored_again(
    begun: Path, damage: Any, kept: bool, messages: pytest.LogCaptureFixture
) -> None:
    part = begun / "part-00000.csv"
    whole = part.read_bytes()
    damage(part)
    left = part.read_bytes() if kept else None
    with parts_folder(begun) as folder:
        folder.repair()
        assert publish(folder) == [0]
    assert part.read_bytes() == whole
    aside = begun / "part-00000.csv.changed"
    assert (aside.read_bytes() if kept else None) == left
    assert ("damaged or edited" if kept else "removed") in messages.text
    assert len(read_rows(begun)["path"]) == 3  # what was set aside is no part


def test_a_part_that_nobody_recorded_is_no_part(begun: Path) -> None:
    (begun / "part-00009.csv").write_bytes((begun / "part-00001.csv").read_bytes())
    (begun / ".part-00001.csv.4711").write_text("of a killed process")
    with parts_folder(begun) as folder:
        folder.repair()
        assert publish(folder) == []
    assert len(read_rows(begun)["path"]) == 3
    assert (begun / "part-00009.csv.changed").exists()
    assert not (begun / ".part-00001.csv.4711").exists()


def test_a_kill_between_record_and_name_costs_that_batch_alone(begun: Path) -> None:
    (begun / "part-00001.csv").unlink()  # recorded, and never renamed
    with parts_folder(begun) as folder:
        folder.repair()
        assert publish(folder) == [1]


def test_a_full_disk_leaves_no_part_and_no_temporary_file(begun: Path) -> None:
    (begun / "part-00001.csv").unlink()
    full = OSError(errno.ENOSPC, "No space left on device")
    with parts_folder(begun) as folder:
        folder.repair()
        with (
            mock.patch.object(Path, "write_bytes", side_effect=full),
            pytest.raises(OSError, match="left") as raised,
        ):
            publish(folder)
    assert raised.value.filename == str(begun / "part-00001.csv")
    assert sorted(path.name for path in begun.glob("*part-*")) == ["part-00000.csv"]
    with parts_folder(begun) as folder:
        folder.repair()
        assert publish(folder) == [1]


def test_the_same_model_and_settings_go_on(begun: Path, messages: pytest.LogCaptureFixture) -> None:
    with parts_folder(begun) as folder:
        folder.check_same("0123456789ab", SETTINGS)
        folder.check_columns(["path", "decision", "reason", "flags"])
    assert "begun by leakdet 0.0.1" in messages.text


def test_what_differs_is_named(begun: Path) -> None:
    with parts_folder(begun) as folder:
        with pytest.raises(InputError, match=r"the model was 0123456789ab \(/models/a") as raised:
            folder.check_same("ba9876543210", {**SETTINGS, "threshold": 0.5, "format": "parquet"})
        assert "--threshold was not given, and is 0.5 now" in str(raised.value)
        assert "--format was csv, and is parquet now" in str(raised.value)
        assert "--policy" not in str(raised.value)
        with pytest.raises(InputError, match=r"other columns.*mains_hum_db"):
            folder.check_columns([*FACTS["columns"], "mains_hum_db"])


def test_two_processes_do_not_share_a_folder(begun: Path) -> None:
    with (
        locked(begun / "lock"),
        pytest.raises(InputError, match="another process writes"),
        parts_folder(begun),
    ):
        pass


def refused(path: Path, words: str) -> None:
    with pytest.raises(InputError, match=words) as raised, parts_folder(path):
        pass
    assert str(path) in str(raised.value)


def test_a_folder_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    refused(tmp_path, "holds other files")
    refused(tmp_path / "notes.txt", "is a file")
    (tmp_path / "parts.json").write_text("[]")
    refused(tmp_path, "Name another folder")
    (tmp_path / "parts.json").write_text('{"kind": "another"}')
    refused(tmp_path, "not the description")
    assert {path.name for path in tmp_path.iterdir()} == {"notes.txt", "parts.json", "lock"}


def test_a_damaged_description_or_list_is_named(begun: Path) -> None:
    text = (begun / "parts.json").read_text()
    (begun / "parts.json").write_text(text.replace("/models/a", "/models/b"))
    refused(begun, "parts.json")
    (begun / "parts.json").write_text(text)
    (begun / "recordings.sqlite").rename(begun / "gone")
    refused(begun, "list of recordings is gone")
    assert json.loads(text)["outcome"] == {"files": 3}


def test_of_a_folder_that_was_not_begun_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no audio"), parts_folder(tmp_path / "parts"):
        raise InputError("no audio")
    (tmp_path / "there").mkdir()
    with parts_folder(tmp_path / "there"):
        pass
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


def test_a_start_that_came_no_further_than_its_list_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "recordings.sqlite").write_text("half")
    (tmp_path / "recordings.sqlite-journal").write_text("half")
    (tmp_path / "lock").touch()
    with parts_folder(tmp_path) as folder:
        assert folder.db.files == 0


@pytest.fixture
def options(trained: Any) -> ModelOptions:
    return ModelOptions(trained.model, file_hash(trained.model), device="cpu")


@pytest.fixture
def batches(write_sound: Callable[..., Path]) -> list[FileBatch]:
    files = [write_sound(f"{number}.wav", seed=number) for number in range(5)]
    files[3].write_text("no sound")
    recordings = [InputRecording(file, {"site": f"s{at}"}) for at, file in enumerate(files)]
    return [
        FileBatch(0, tuple(recordings[:3]), ("0.wav", "1.wav", "2.wav")),
        FileBatch(7, tuple(recordings[3:]), ("3.wav", "4.wav")),
    ]


def test_threads_give_whole_batches_in_order(
    options: ModelOptions, batches: list[FileBatch], trained: Any
) -> None:
    steps: list[int] = []
    scored = list(by_threads(options.load(), workers=2)(iter(batches), steps.append))
    assert [batch.number for batch, _ in scored] == [0, 7]
    assert steps == [1] * 5
    rows = [row for _, of_batch in scored for row in of_batch]
    assert [row["path"] for row in rows] == ["0.wav", "1.wav", "2.wav", "3.wav", "4.wav"]
    assert [row["site"] for row in rows] == ["s0", "s1", "s2", "s3", "s4"]
    assert [bool(row["error"]) for row in rows] == [False, False, False, True, False]
    assert all(isinstance(row["leak_prob"], float) for row in rows if not row["error"])
    assert "timeline" not in rows[0]


class Workers(Engine):
    """Does all here, but for batches with a file that kills the worker that has it."""

    def __init__(self, *deadly: str) -> None:
        super().__init__(None, "local:1")
        self.deadly = deadly

    def unordered(
        self,
        work: Callable[[Any], Any],
        items: Iterable[Any],
        in_flight: int = 0,
        suspected: Callable[[Any], Any] | None = None,
    ) -> Generator[tuple[Any, Any], None, None]:
        assert in_flight == IN_FLIGHT
        assert suspected is not None
        for batch in reversed(list(items)):
            yield batch, (suspected if {*batch.paths} & {*self.deadly} else work)(batch)

    def run_isolated(self, work: Callable[[Any], Any], item: Any) -> Any:
        if item.paths[0] in self.deadly and not item.recordings[0].error:
            raise KillsWorkersError(item, 3)
        return work(item)


def scored_by(workers: Workers, options: ModelOptions, batches: list[FileBatch]) -> dict[int, Rows]:
    scores = by_cluster(workers, options)
    return {batch.number: rows for batch, rows in scores(batches, lambda _: None)}


def test_a_worker_gives_the_rows_that_threads_give(
    options: ModelOptions, batches: list[FileBatch]
) -> None:
    steps: list[int] = []
    scored = list(by_cluster(Workers(), options)(batches, steps.append))
    assert [batch.number for batch, _ in scored] == [7, 0]
    assert steps == [2, 3]
    assert scored[::-1] == list(by_threads(options.load())(batches, steps.append))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "other_source"),
        ({"source": "off", "unfamiliar": "strict"}, "unfamiliar"),
        ({"source": "off", "unfamiliar": "off", "threshold": 0.6, "doubt": 0.4999999}, "doubt"),
        ({"source": "off", "unfamiliar": "off", "doubt": 0.0}, ""),
    ],
)
def test_threads_clusters_and_python_leave_the_same_undecided(
    trained: Any, batches: list[FileBatch], settings: Any, expected: str, tmp_path: Path
) -> None:
    inner, model = load_detector(trained.model).mel_detector, tmp_path / "m.safetensors"
    unlike = np.random.default_rng(0).normal(0, 1e-3, (20, 2 * inner.signal.n_mels))
    reference = SpectralReference.of(unlike, np.arange(20) < 10)
    rates, weights = SourceRates({48000: (4, 4)}), inner.network.state_dict()
    save_model(model, weights, inner.card, reference=reference, sources=rates)
    options = ModelOptions(model, file_hash(model), "cpu", **settings)
    rows = scored_by(Workers(), options, batches)
    threads = by_threads(options.load())(batches, lambda _: None)
    assert rows == {batch.number: of_batch for batch, of_batch in threads}
    detector = load_detector(model, "cpu", **settings)
    for batch in batches:
        verdicts = detector.predict([recording.source for recording in batch.recordings])
        of_batch = rows[batch.number]
        for row, verdict in zip(of_batch, verdicts, strict=True):
            assert (row["decision"], row["reason"]) == (verdict.decision, verdict.reason)
            assert row["error"] or verdict.reason == expected


def test_a_file_that_kills_its_workers_is_one_row_with_an_error(
    options: ModelOptions, batches: list[FileBatch]
) -> None:
    whole, rows = (scored_by(Workers(*deadly), options, batches) for deadly in ((), ("1.wav",)))
    guilty = rows[0].pop(1)
    assert guilty["path"] == "1.wav"
    assert guilty["site"] == "s1"
    assert guilty["decision"] is None
    assert "killed its worker 3 times" in guilty["error"]
    del whole[0][1]
    assert rows == whole


def test_where_every_file_kills_its_workers_the_run_ends(
    options: ModelOptions, batches: list[FileBatch]
) -> None:
    every = Workers("0.wav", "1.wav", "2.wav", "3.wav", "4.wav")
    with pytest.raises(KillsWorkersError, match=r"^0\.wav: killed"):  # the third that is tried
        scored_by(every, options, batches)


def test_a_worker_with_another_model_or_none_says_where(
    options: ModelOptions, batches: list[FileBatch], tmp_path: Path
) -> None:
    other = ModelOptions(options.path, "0123456789ab", "cpu")
    with pytest.raises(InputError, match="is 0123456789ab"):
        score_batch(other, batches[0])
    absent = ModelOptions(tmp_path / "none.safetensors", "0123456789ab", "cpu")
    with pytest.raises(InputError, match="under the same paths"):
        score_batch(absent, batches[0])


Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def _small_batches() -> Iterator[None]:
    with mock.patch("leakdet.scoring.parts.BATCH_FILES", 4):
        yield


@pytest.fixture
def run(trained: Any, door: Callable[..., Any], tmp_path: Path, add: Callable[..., None]) -> Run:
    """Run `predict MODEL audio --parts parts OPTIONS` in a folder with ten recordings."""
    add(*range(10))

    def predict(*options: object, sources: tuple[str, ...] = ("audio",)) -> Any:
        words = [trained.model, *sources, "--parts", "parts", "--device", "cpu"]
        return door("predict", *words, "--workers", "2", *options, cwd=tmp_path)

    return predict


@pytest.fixture
def add(write_sound: Callable[..., Path], tmp_path: Path) -> Callable[..., None]:
    """Add recordings of these numbers: links to one sound."""
    sound = write_sound("sound.wav")

    def added(*numbers: int) -> None:
        (tmp_path / "audio").mkdir(exist_ok=True)
        for number in numbers:
            (tmp_path / "audio" / f"{number:02}.wav").symlink_to(sound)

    return added


def paths(tmp_path: Path) -> list[str]:
    return [Path(path).stem for path in read_rows(tmp_path / "parts")["path"]]


def parts(tmp_path: Path) -> dict[str, int]:
    """The time at which each part was written."""
    return {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("parts/part-*")}


def stopped_after(count: int, error: BaseException) -> Any:
    """Raise an error in place of publishing the next part after so many."""
    publish, published = PartsFolder.publish, list[int]()

    def limited(folder: PartsFolder, number: int, rows: Any) -> None:
        if len(published) == count:
            raise error
        published.append(number)
        publish(folder, number, rows)

    return mock.patch.object(PartsFolder, "publish", limited)


def test_rows_are_those_of_predict(run: Run, trained: Any, door: Any, tmp_path: Path) -> None:
    answer = run()
    assert answer.returncode == 0, answer.stderr
    assert "10 files: " in answer.stderr
    assert "parts    parts: 10 files in 3 parts" in answer.stderr
    assert answer.stderr.count("\nmissing  no sounds without a pipe") == 1
    assert not answer.stdout
    door("predict", trained.model, "audio", "--out", "rows.csv", cwd=tmp_path)
    written = "".join(
        text if number == 0 else text.partition("\n")[2]
        for number in range(3)
        for text in [(tmp_path / f"parts/part-{number:05}.csv").read_text()]
    )
    assert written == (tmp_path / "rows.csv").read_text()
    beside, facts = (
        json.loads((tmp_path / name).read_text()) for name in ("rows.csv.json", "parts/parts.json")
    )
    assert facts["columns"] == written.partition("\n")[0].strip().split(",")
    for name in ("model", "decision_rule", "signal", "created_by"):
        assert facts[name] == beside[name]
    for name in ("recordings", "decisions", "reasons", "flags"):
        assert facts["outcome"][name] == beside[name]
    assert facts["outcome"]["listings"][0]["inputs"] == [str(tmp_path / "audio")]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_the_same_command_goes_on_and_scores_nothing_twice(
    run: Run, tmp_path: Path, error: BaseException
) -> None:
    with stopped_after(1, error):
        answer = run()
    assert answer.returncode == (130 if isinstance(error, KeyboardInterrupt) else 2)
    assert re.search("4 of 10 files .* in parts; the same command", answer.stderr)
    before = parts(tmp_path)
    assert list(before) == ["part-00000.csv"]
    assert json.loads((tmp_path / "parts/parts.json").read_text())["outcome"] is None
    scored, verdicts_of = [], Detector.verdicts_of

    def counted(detector: Detector, recordings: Iterable[InputRecording], workers: int) -> Any:
        noted = (scored.append(recording.source.stem) or recording for recording in recordings)
        return verdicts_of(detector, noted, workers)

    with mock.patch.object(Detector, "verdicts_of", counted):
        answer = run()
    assert answer.returncode == 0, answer.stderr
    assert sorted(scored) == [f"{number:02}" for number in range(4, 10)]
    assert paths(tmp_path) == [f"{number:02}" for number in range(10)]
    assert parts(tmp_path)["part-00000.csv"] == before["part-00000.csv"]
    assert "10 files: " in answer.stderr  # counted over both starts


def test_another_signature_of_a_url_is_the_same_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, url = tmp_path / "list.csv", "https://h/a.wav"
    monkeypatch.setattr("leakdet.scoring.listing.check_reachable", lambda _: None)
    arguments = argparse.Namespace(
        paths=[str(table)], name_pattern=None, new_only=False, parts=tmp_path, model=Path("m")
    )
    for signature in ("1", "2"):
        monkeypatch.setattr("leakdet.core.locations._signed", {})  # of another process
        table.write_text(f"path\n{url}?X-Amz-Signature={signature}\n")
        with parts_folder(tmp_path / "parts") as folder:
            assert _listed(folder, arguments).files == folder.db.files == 1
            (batch,) = folder.db.batches()
            folder.write_facts(kind=KIND)
        assert batch.paths == (url,)
        assert batch.recordings[0].source == RemoteFile(f"{url}?X-Amz-Signature={signature}")


def test_with_nothing_left_it_says_so_without_the_model(run: Run, tmp_path: Path) -> None:
    assert run().returncode == 0
    before = parts(tmp_path), (tmp_path / "parts/parts.json").read_text()
    with mock.patch("leakdet.scoring.detector.load_detector", side_effect=AssertionError):
        answer = run()
    assert answer.returncode == 0
    assert "--new-only adds" in answer.stderr
    assert (parts(tmp_path), (tmp_path / "parts/parts.json").read_text()) == before


def test_only_new_files_are_added(run: Run, add: Any, tmp_path: Path) -> None:
    with stopped_after(2, KeyboardInterrupt()):
        run()
    add(10, 11)
    (tmp_path / "audio" / "12.wav").write_text("no sound")
    assert run().returncode == 0
    assert len(paths(tmp_path)) == 10  # a folder that was begun keeps its list
    before = parts(tmp_path)
    answer = run("--new-only")
    assert answer.returncode == 1
    assert "files    3 new, 10 listed before" in answer.stderr
    assert "3 files: " in answer.stderr
    assert ", 1 failed" in answer.stderr
    assert "parts    parts: 13 files in 4 parts" in answer.stderr
    assert paths(tmp_path) == [f"{number:02}" for number in range(13)]
    assert before.items() <= parts(tmp_path).items()
    answer = run("--new-only")
    assert answer.returncode == 0
    assert "files    0 new, 13 listed before" in answer.stderr
    outcome = json.loads((tmp_path / "parts/parts.json").read_text())["outcome"]
    assert [listing["files"] for listing in outcome["listings"]] == [10, 3]
    assert outcome["decisions"]["failed"] == 1


def test_other_recordings_or_settings_are_refused(run: Run, tmp_path: Path, add: Any) -> None:
    assert run().returncode == 0
    before = parts(tmp_path)
    for options, words in (
        (("--threshold", "0.75"), "--threshold was not given, and is 0.75 now"),
        (("--format", "parquet"), "--format was csv, and is parquet now"),
        (("--unfamiliar", "strict"), "--unfamiliar was not given, and is strict now"),
    ):
        answer = run(*options)
        assert (answer.returncode, words in answer.stderr) == (2, True)
    answer = run(sources=("sound.wav",))
    assert answer.returncode == 2
    assert re.search("other recordings; .*--new-only", answer.stderr)
    with locked(tmp_path / "parts/lock"):
        answer = run()
    assert (answer.returncode, "another process writes" in answer.stderr) == (2, True)
    assert parts(tmp_path) == before


@pytest.mark.parametrize(
    ("sources", "words"), [(("empty",), "no audio found"), (("audio", "x.onnx"), "one model")]
)
def test_a_list_that_cannot_be_leaves_no_folder(
    run: Run, tmp_path: Path, sources: tuple[str, ...], words: str
) -> None:
    (tmp_path / "empty").mkdir()
    answer = run(sources=sources)
    assert (answer.returncode, words in answer.stderr) == (2, True)
    assert not (tmp_path / "parts").exists()


def test_parquet_by_a_cluster(run: Run, tmp_path: Path) -> None:
    @mock.patch("leakdet.core.parallel.check_cluster")
    def with_engine(_: mock.Mock) -> Any:
        engine = mock.MagicMock()
        engine.__enter__.return_value = mock.Mock(spec=Engine)
        engine.__enter__.return_value.unordered = lambda work, items, *_: [
            (item, work(item)) for item in list(items)[::-1]
        ]
        with mock.patch("leakdet.core.parallel.cluster", return_value=engine) as connected:
            answer = run("--cluster", "tcp://x:1", "--format", "parquet", "--workers", "0")
        connected.assert_called_once_with("tcp://x:1")
        return answer

    answer = with_engine()
    assert answer.returncode == 0, answer.stderr
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == [
        "lock",
        *(f"part-0000{number}.parquet" for number in range(3)),
        "parts.json",
        "recordings.sqlite",
    ]
    assert paths(tmp_path) == [f"{number:02}" for number in range(10)]
