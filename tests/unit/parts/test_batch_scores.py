"""Batches give the same rows by threads and, one at a time, by a worker's function."""

from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from leakdet._cluster_engine import Engine, KillsWorkersError
from leakdet.errors import InputError
from leakdet.parts.batch import Batch
from leakdet.parts.batch_scores import (
    IN_FLIGHT,
    ModelOptions,
    Rows,
    by_cluster,
    by_threads,
    score_batch,
)
from leakdet.scoring.listed_recording import ListedRecording
from leakdet.storage.model_card import file_hash


@pytest.fixture
def options(trained: Any) -> ModelOptions:
    return ModelOptions(trained.model, file_hash(trained.model), device="cpu")


@pytest.fixture
def batches(write_sound: Callable[..., Path]) -> list[Batch]:
    files = [write_sound(f"{number}.wav", seed=number) for number in range(5)]
    files[3].write_text("no sound")
    recordings = [ListedRecording(file, {"site": f"s{at}"}) for at, file in enumerate(files)]
    return [
        Batch(0, tuple(recordings[:3]), ("0.wav", "1.wav", "2.wav")),
        Batch(7, tuple(recordings[3:]), ("3.wav", "4.wav")),
    ]


def test_threads_give_whole_batches_in_order(
    options: ModelOptions, batches: list[Batch], trained: Any
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

    def alone(self, work: Callable[[Any], Any], item: Any) -> Any:
        if item.paths[0] in self.deadly and not item.recordings[0].error:
            raise KillsWorkersError(item, 3)
        return work(item)


def scored_by(workers: Workers, options: ModelOptions, batches: list[Batch]) -> dict[int, Rows]:
    scores = by_cluster(workers, options)
    return {batch.number: rows for batch, rows in scores(batches, lambda _: None)}


def test_a_worker_gives_the_rows_that_threads_give(
    options: ModelOptions, batches: list[Batch]
) -> None:
    steps: list[int] = []
    scored = list(by_cluster(Workers(), options)(batches, steps.append))
    assert [batch.number for batch, _ in scored] == [7, 0]
    assert steps == [2, 3]
    assert scored[::-1] == list(by_threads(options.load())(batches, steps.append))


def test_a_file_that_kills_its_workers_is_one_row_with_an_error(
    options: ModelOptions, batches: list[Batch]
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
    options: ModelOptions, batches: list[Batch]
) -> None:
    every = Workers("0.wav", "1.wav", "2.wav", "3.wav", "4.wav")
    with pytest.raises(KillsWorkersError, match=r"^0\.wav: killed"):  # the third that is tried
        scored_by(every, options, batches)


def test_a_worker_with_another_model_or_none_says_where(
    options: ModelOptions, batches: list[Batch], tmp_path: Path
) -> None:
    other = ModelOptions(options.path, "0123456789ab", "cpu")
    with pytest.raises(InputError, match="this command's is 0123456789ab"):
        score_batch(other, batches[0])
    absent = ModelOptions(tmp_path / "none.safetensors", "0123456789ab", "cpu")
    with pytest.raises(InputError, match="under the same paths"):
        score_batch(absent, batches[0])
