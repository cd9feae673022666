"""Batches give the same rows by threads and, one at a time, by a worker's function."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leakdet.errors import InputError
from leakdet.parts.batch import Batch
from leakdet.parts.batch_scores import (
    IN_FLIGHT,
    ModelOptions,
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


def test_a_worker_gives_the_rows_that_threads_give(
    options: ModelOptions, batches: list[Batch]
) -> None:
    def unordered(
        work: Callable[[Any], Any], items: Iterable[Any], in_flight: int
    ) -> Iterator[tuple[Any, Any]]:
        assert in_flight == IN_FLIGHT
        yield from reversed([(item, work(item)) for item in items])

    steps: list[int] = []
    scored = list(by_cluster(unordered, options)(batches, steps.append))
    assert [batch.number for batch, _ in scored] == [7, 0]
    assert steps == [2, 3]
    assert scored[::-1] == list(by_threads(options.load())(batches, steps.append))


def test_a_worker_with_another_model_or_none_says_where(
    options: ModelOptions, batches: list[Batch], tmp_path: Path
) -> None:
    other = ModelOptions(options.path, "0123456789ab", "cpu")
    with pytest.raises(InputError, match="this command's is 0123456789ab"):
        score_batch(other, batches[0])
    absent = ModelOptions(tmp_path / "none.safetensors", "0123456789ab", "cpu")
    with pytest.raises(InputError, match="under the same paths"):
        score_batch(absent, batches[0])
