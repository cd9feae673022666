"""Scores batches by the threads of this process, or by the processes of a cluster."""

import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from leakdet._parallel import in_order
from leakdet._remote import RemoteFile
from leakdet.errors import InputError
from leakdet.parts.batch import Batch
from leakdet.scoring.audio_detector import Detector, load_detector

IN_FLIGHT = 4  # batches with each worker of a cluster
AHEAD = 64  # files with each thread, so that none waits while a part is flushed to the disk

Rows = list[dict[str, Any]]
Unordered = Callable[[Callable[[Any], Any], Iterable[Any], int], Iterator[tuple[Any, Any]]]
# Batches with their rows, in any order; it says how many files more are scored.
Scores = Callable[[Iterable[Batch], Callable[[int], None]], Iterator[tuple[Batch, Rows]]]


@dataclass(frozen=True)
class ModelOptions:
    """A model file, and how it is loaded, for other processes."""

    path: Path | RemoteFile  # absolute
    file_hash: str
    device: str = "auto"
    trust_network: tuple[str, ...] = ()
    threshold: float | None = None
    policy: str | None = None
    unfamiliar: str | None = None

    def load(self) -> Detector:
        return load_detector(
            self.path,
            self.device,
            self.trust_network,
            threshold=self.threshold,
            policy=self.policy,
            unfamiliar=self.unfamiliar,
        )


def by_threads(detector: Detector, workers: int = 0) -> Scores:
    """Scores by `workers` threads (0: one per core), without a pause between batches."""

    def scores(
        batches: Iterable[Batch], step: Callable[[int], None]
    ) -> Iterator[tuple[Batch, Rows]]:
        files = ((batch, at) for batch in batches for at in range(len(batch)))
        rows: Rows = []
        score = partial(_score_file, detector)
        for (batch, at), of_file in in_order(score, files, workers, AHEAD):
            rows += of_file
            step(1)
            if at == len(batch) - 1:
                yield batch, rows
                rows = []

    return scores


def by_cluster(unordered: Unordered, options: ModelOptions) -> Scores:
    """Scores by the workers of a cluster, a batch at a time; see `leakdet._cluster_engine`."""

    def scores(
        batches: Iterable[Batch], step: Callable[[int], None]
    ) -> Iterator[tuple[Batch, Rows]]:
        work = partial(score_batch, options)
        for batch, rows in unordered(work, batches, IN_FLIGHT):
            step(len(batch))
            yield batch, rows

    return scores


def score_batch(options: ModelOptions, batch: Batch) -> Rows:
    """The rows of a batch, by a detector that stays loaded in this process.

    Raises:
        InputError: the model cannot be loaded here, or is another one than the command's.
    """
    detector = _detector(options)
    return [row for at in range(len(batch)) for row in _score_file(detector, (batch, at))]


@lru_cache(maxsize=2)
def _detector(options: ModelOptions) -> Detector:
    try:
        detector = options.load()
    except InputError as error:
        raise InputError(
            f"on {socket.gethostname()}: {error} All machines of a cluster must see the model and "
            "the recordings under the same paths."
        ) from error
    found = detector.mel_detector.file_hash
    if found != options.file_hash:
        raise InputError(
            f"on {socket.gethostname()}: {options.path} is the model {found}, and this command's "
            f"is {options.file_hash}. All machines of a cluster must see the same files."
        )
    return detector


def _score_file(detector: Detector, file: tuple[Batch, int]) -> Rows:
    batch, at = file
    rows = [verdict.to_dict() for verdict in detector.predict_one(batch.recordings[at])]
    for row in rows:
        row["path"] = batch.paths[at]
        del row["timeline"]
    return rows
