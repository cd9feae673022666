"""`predict --parts` as a user runs it: goes on, adds new files, refuses what does not fit."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from leakdet._cluster_engine import Engine
from leakdet.parts.part_rows import read_rows
from leakdet.parts.parts_folder import PartsFolder
from leakdet.scoring.audio_detector import Detector
from leakdet.storage.file_lock import locked

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def _small_batches() -> Iterator[None]:
    with mock.patch("leakdet.parts.parts_folder.BATCH_FILES", 4):
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
    assert "4 of 10 files are scored and stay in parts; the same command goes on" in answer.stderr
    before = parts(tmp_path)
    assert list(before) == ["part-00000.csv"]
    assert json.loads((tmp_path / "parts/parts.json").read_text())["outcome"] is None
    scored, predict_one = [], Detector.predict_one

    def counted(detector: Detector, recording: Any) -> Any:
        scored.append(recording.source.stem)
        return predict_one(detector, recording)

    with mock.patch.object(Detector, "predict_one", counted):
        answer = run()
    assert answer.returncode == 0, answer.stderr
    assert sorted(scored) == [f"{number:02}" for number in range(4, 10)]
    assert paths(tmp_path) == [f"{number:02}" for number in range(10)]
    assert parts(tmp_path)["part-00000.csv"] == before["part-00000.csv"]
    assert "10 files: " in answer.stderr  # counted over both starts


def test_with_nothing_left_it_says_so_without_the_model(run: Run, tmp_path: Path) -> None:
    assert run().returncode == 0
    before = parts(tmp_path), (tmp_path / "parts/parts.json").read_text()
    with mock.patch("leakdet.scoring.audio_detector.load_detector", side_effect=AssertionError):
        answer = run()
    assert answer.returncode == 0
    assert "--new-only adds what came since" in answer.stderr
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
    assert "was begun with other recordings; add --new-only" in answer.stderr
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
    @mock.patch("leakdet._cluster_address.check_cluster")
    def with_engine(_: mock.Mock) -> Any:
        engine = mock.MagicMock()
        engine.__enter__.return_value = mock.Mock(spec=Engine)
        engine.__enter__.return_value.unordered = lambda work, items, *_: [
            (item, work(item)) for item in list(items)[::-1]
        ]
        with mock.patch("leakdet._cluster.cluster", return_value=engine) as connected:
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
