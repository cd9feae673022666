"""A batch: the recordings of one part, by their number in the list."""

from dataclasses import dataclass, replace

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

    def only(self, at: int, error: str = "") -> "Batch":
        """The recording at this place alone; `error` says why it cannot be scored."""
        recording = self.recordings[at]
        if error:
            recording = replace(recording, error=error)
        return Batch(self.number, (recording,), self.paths[at : at + 1])

    def __str__(self) -> str:
        if len(self) == 1:
            return self.paths[0]
        return f"batch {self.number} ({self.paths[0]} to {self.paths[-1]})"
