"""A batch: the recordings of one part, by their number in the list."""

from dataclasses import dataclass

from leakdet.scoring.listed_recording import ListedRecording

BATCH_FILES = 256


@dataclass(frozen=True)
class Batch:
    """At most 256 recordings, whose sources are absolute, and their paths as they were named."""

    number: int
    recordings: tuple[ListedRecording, ...]
    paths: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.recordings)

    def __str__(self) -> str:
        return f"batch {self.number} ({self.paths[0]} to {self.paths[-1]})"
