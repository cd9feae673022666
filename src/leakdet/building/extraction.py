"""Decodes one recording and computes its log-mel, ready to be written into a store."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Protocol, cast

import numpy as np
from jaxtyping import Bool

from leakdet._remote import RemoteFile
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.surrogates import SurrogateTransform
from leakdet.acoustics.windows import MelStream
from leakdet.building.sources import LeftOut, SourceRecording, printable
from leakdet.errors import InputError
from leakdet.storage.writer import BinaryFile, RecordingRow

SPOOL_BYTES = 16 << 20  # kept in memory per recording; a longer one is spooled to disk


class SpoolFile(BinaryFile, Protocol):
    """A file of raw numbers, which is of no use any more once it is closed."""

    def close(self) -> None: ...


@dataclass
class ExtractedRecording:
    """One recording as a worker thread returns it; mel and sound are raw numbers in spool files."""

    row: RecordingRow
    mel: SpoolFile
    sound: SpoolFile | None

    def close(self) -> None:
        """Remove the spool files."""
        self.mel.close()
        if self.sound is not None:
            self.sound.close()


# Extracts recordings, in their order; the second argument hears how many more are done.
Extraction = Callable[
    [Sequence[SourceRecording], Callable[[int], None]], Iterator[ExtractedRecording | LeftOut]
]


@dataclass(frozen=True)
class Extractor:
    """Extracts one recording per call, in any thread.

    `waveform` is the number format of the stored sound or none; `folder` is where the store is
    built and `out` where it will be.
    """

    log_mel: LogMel
    waveform: str
    folder: Path
    out: Path

    def __call__(self, recording: SourceRecording) -> ExtractedRecording | LeftOut:
        mel = self._spool()
        sound = self._spool() if self.waveform != "none" else None
        name = recording.recording_id if recording.surrogate_of else None
        stream = mel_stream(recording.path, self.log_mel, name, recording.channel, True)
        live, written_until = [], 0
        try:
            for block in stream:
                mel.write(block.mel.numpy().data.cast("B"))
                live.append(block.live)
                if sound is not None:
                    fresh = block.chunk.sound[max(0, written_until - block.chunk.start_sample) :]
                    sound.write(_as_stored(fresh, self.waveform))
                    written_until = block.chunk.start_sample + len(block.chunk.sound)
        except InputError as error:
            mel.close()
            if sound is not None:
                sound.close()
            return LeftOut(recording.recording_id, str(error))
        return ExtractedRecording(self._row(recording, stream, np.concatenate(live)), mel, sound)

    def _spool(self) -> IO[bytes]:
        return cast(IO[bytes], SpooledTemporaryFile(max_size=SPOOL_BYTES, dir=str(self.folder)))

    def _row(
        self, recording: SourceRecording, stream: MelStream, live: Bool[np.ndarray, " W"]
    ) -> RecordingRow:
        facts = stream.facts
        path = recording.path.absolute()
        # the demo's audio is published together with the store
        if isinstance(path, Path) and path.is_relative_to(self.folder):
            path = self.out / path.relative_to(self.folder)
        content, flags = facts.content_sha256, [*facts.flags]
        if recording.surrogate_of:
            content = hashlib.sha256(f"{content} {recording.recording_id}".encode()).hexdigest()
            flags.insert(0, "surrogate")
        return RecordingRow(
            recording_id=recording.recording_id,
            path=printable(str(path)),
            label=recording.label,
            groups=recording.groups,
            weight=recording.weight,
            content_sha256=content,
            duration_s=facts.duration_s,
            source_rate_hz=facts.source_rate_hz,
            rms_dbfs=facts.rms_dbfs,
            dc_offset=facts.dc_offset,
            clipped_fraction=facts.clipped_fraction,
            flags=flags,
            windows=len(live),
            mel_crc32=0,
            mains_hum_50_db=facts.mains_hum_db[0],
            mains_hum_60_db=facts.mains_hum_db[1],
            surrogate_of=recording.surrogate_of,
            channel=recording.channel,
            live=live,
        )


def mel_stream(
    path: Path | RemoteFile,
    log_mel: LogMel,
    surrogate: str | None = None,
    channel: int = 0,
    with_hum: bool = False,
) -> MelStream:
    """The log-mel of a recording, or of its surrogate of this name; `with_hum` measures hum."""
    transform = None
    if surrogate is not None:
        transform = SurrogateTransform(surrogate, log_mel.signal.sample_rate_hz)
    return MelStream(path, log_mel, transform, channel, with_hum)


def _as_stored(sound: np.ndarray, dtype: str) -> bytes:
    if dtype == "float32":
        return sound.tobytes()
    return np.clip(np.round(sound * 32768.0), -32768, 32767).astype("<i2").tobytes()
