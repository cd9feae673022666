"""Scores batches by the threads of this process, or by the processes of a cluster."""

import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from leakdet._cluster_engine import Engine, KillsWorkersError
from leakdet._messages import LOG
from leakdet._parallel import in_order
from leakdet._remote import RemoteFile
from leakdet.errors import InputError
from leakdet.parts.batch import Batch
from leakdet.scoring.audio_detector import Detector, load_detector

IN_FLIGHT = 4  # batches with each worker of a cluster
MOST_KILLING = 3  # files that kill their workers before any is scored: it is the machine
AHEAD = 64  # files with each thread, so that none waits while a part is flushed to the disk

Rows = list[dict[str, Any]]
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


def by_cluster(engine: Engine, options: ModelOptions) -> Scores:
    """Scores by the workers of a cluster, a batch at a time.

    A batch that every worker is lost with is scored file by file, and files that kill their workers
    even so get a row with an error.

    Raises:
        KillsWorkersError: so did the first files, and none was scored: it is not their fault.
    """
    work = partial(score_batch, options)
    scored = killing = 0

    def file_by_file(batch: Batch) -> Rows:
        nonlocal scored, killing
        rows: Rows = []
        for at in range(len(batch)):
            try:
                rows += engine.alone(work, batch.only(at))
                scored += 1
            except KillsWorkersError as error:
                killing += 1
                if not scored and killing == MOST_KILLING:
                    raise
                LOG.warning(f"{batch.paths[at]}: {error.reason}; its row has this as its error")
                rows += engine.alone(work, batch.only(at, error.reason))
        return rows

    def scores(
        batches: Iterable[Batch], step: Callable[[int], None]
    ) -> Iterator[tuple[Batch, Rows]]:
        nonlocal scored
        for batch, rows in engine.unordered(work, batches, IN_FLIGHT, file_by_file):
            scored += any(not row["error"] for row in rows)
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
