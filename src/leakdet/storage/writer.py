"""Writing a split of a store as an HDF5 file; `store.py` describes the layout."""

import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import h5py
import numpy as np
from jaxtyping import Bool

import leakdet
from leakdet.config import SignalConfig
from leakdet.storage.hdf5 import PAGE_BYTES
from leakdet.storage.store import GROUP, SCHEMA_VERSION, offsets_of

COPY_BYTES = 8 << 20
CHUNK_WINDOWS = 4  # compressed stores only: a random window must not cost a whole recording


@runtime_checkable
class ByteSource(Protocol):
    """An open binary file."""

    def seek(self, offset: int, /) -> int: ...
    def read(self, size: int, /) -> bytes: ...


@dataclass
class RecordingRow:
    """One recording of a split, as it is written."""

    recording_id: str
    path: str
    label: str
    groups: Mapping[str, str]
    weight: float
    content_sha256: str
    duration_s: float
    source_rate_hz: int
    rms_dbfs: float
    dc_offset: float
    clipped_fraction: float
    flags: Sequence[str]
    windows: int
    mel_crc32: int
    mains_hum_50_db: float = math.nan  # NaN: not measured
    mains_hum_60_db: float = math.nan
    surrogate_of: str = ""  # recording_id of the recording that a surrogate was made from
    live: Bool[np.ndarray, " W"] | None = None  # which windows hold sound; None: unknown


# name, dtype: per-recording data sets that are plain copies of a RecordingRow field
_ROW_FIELDS: tuple[tuple[str, Any], ...] = (
    ("recording_id", h5py.string_dtype()),
    ("path", h5py.string_dtype()),
    ("content_sha256", h5py.string_dtype()),
    ("weight", np.float32),
    ("duration_s", np.float32),
    ("source_rate_hz", np.int32),
    ("rms_dbfs", np.float32),
    ("dc_offset", np.float32),
    ("clipped_fraction", np.float32),
    ("mel_crc32", np.uint32),
    ("mains_hum_50_db", np.float32),
    ("mains_hum_60_db", np.float32),
)


@dataclass
class SplitWriter:
    """Collects one split's recordings in `folder`, then writes them as one HDF5 file.

    A contiguous data set needs the number of windows at its start, which is known only at the end:
    mel and sound go to plain spool files first. Memory holds the rows, never the mel.
    """

    folder: Path
    name: str
    signal: SignalConfig
    waveform: str = "none"
    group_by: Sequence[str] = ()  # the group columns that no other split shares
    # those of the whole split, written even where no recording here has them
    columns: Sequence[str] = ()
    rows: list[RecordingRow] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._mel = _Spool(
            self.folder / f".{self.name}.mel", (*self.signal.mel_shape,), np.dtype(np.float16)
        )
        kind = np.dtype(np.int16 if self.waveform == "none" else self.waveform)
        self._sound = _Spool(self.folder / f".{self.name}.sound", (), kind)

    def add(self, row: RecordingRow, mel: ByteSource, sound: ByteSource | None) -> None:
        """Append a recording; `mel` and `sound` hold raw little-endian numbers."""
        row.mel_crc32 = self._mel.append(mel)
        if sound is not None:
            self._sound.append(sound)
        self.rows.append(row)

    def remove(self, recording_id: str) -> None:
        """Take a recording out again; its bytes stay in the spool and are not copied."""
        index = [row.recording_id for row in self.rows].index(recording_id)
        del self.rows[index], self._mel.pieces[index]
        if self.waveform != "none":
            del self._sound.pieces[index]

    def write(
        self, path: Path, label_names: Sequence[str], leak_label: str, compression: str = "none"
    ) -> None:
        """Write the HDF5 file and remove the spool."""
        names = list(label_names)
        # what is mapped into memory begins at a page
        with h5py.File(
            path, "w", alignment_threshold=PAGE_BYTES, alignment_interval=PAGE_BYTES
        ) as file:
            file.attrs["schema_version"] = SCHEMA_VERSION
            file.attrs["signal"] = json.dumps(asdict(self.signal))
            file.attrs["signal_hash"] = self.signal.hash
            file.attrs["label_names"] = json.dumps(names)
            file.attrs["leak_label"] = leak_label
            file.attrs["group_by"] = json.dumps(list(self.group_by))
            file.attrs["created_by"] = f"leakdet {leakdet.__version__}"
            file.attrs["created_at"] = datetime.now(UTC).isoformat(timespec="seconds")
            for field_name, dtype in _ROW_FIELDS:
                file.create_dataset(
                    field_name, data=[getattr(row, field_name) for row in self.rows], dtype=dtype
                )
            file.create_dataset(
                "flags", data=[",".join(row.flags) for row in self.rows], dtype=h5py.string_dtype()
            )
            file.create_dataset(
                "label_id", data=[names.index(row.label) for row in self.rows], dtype=np.int16
            )
            if any(row.surrogate_of for row in self.rows):
                made_from = [row.surrogate_of for row in self.rows]
                file.create_dataset("surrogate_of", data=made_from, dtype=h5py.string_dtype())
            for column in sorted(
                {*self.columns, *(column for row in self.rows for column in row.groups)}
            ):
                values = [row.groups.get(column, "") for row in self.rows]
                file.create_dataset(f"{GROUP}{column}", data=values, dtype=h5py.string_dtype())
            file.create_dataset(
                "recording_offsets", data=offsets_of([row.windows for row in self.rows])
            )
            live = [row.live for row in self.rows if row.live is not None]
            if live and len(live) == len(self.rows):
                file.create_dataset("live", data=np.concatenate(live))
            self._mel.write_to(file, "mel", compression)
            if self.waveform != "none":
                file.create_dataset(
                    "waveform_offsets", data=offsets_of([count for _, count in self._sound.pieces])
                )
                self._sound.write_to(file, "waveform")
        self.discard()

    def discard(self) -> None:
        self._mel.remove()
        self._sound.remove()


class _Spool:
    """A plain file of rows of one shape, with the piece (first row, rows) that belongs to each
    recording.
    """

    def __init__(self, path: Path, row_shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.row_shape, self.dtype = row_shape, dtype
        self.row_bytes = math.prod(row_shape) * dtype.itemsize
        self.pieces: list[tuple[int, int]] = []
        self._file = path.open("w+b")

    def append(self, source: ByteSource) -> int:
        """Append all of `source`; returns the CRC-32 of what was copied."""
        start, crc = self._file.tell(), 0
        source.seek(0)
        while block := source.read(1 << 20):
            crc = zlib.crc32(block, crc)
            self._file.write(block)
        self.pieces.append((start // self.row_bytes, (self._file.tell() - start) // self.row_bytes))
        return crc

    def write_to(self, file: h5py.File, name: str, compression: str = "none") -> None:
        rows = sum(count for _, count in self.pieces)
        shape = (rows, *self.row_shape)
        how: dict[str, Any] = {}
        if compression != "none" and rows:
            how = {
                "compression": compression,
                "shuffle": True,
                "chunks": (min(CHUNK_WINDOWS, rows), *self.row_shape),
            }
        dataset = file.create_dataset(name, shape=shape, dtype=self.dtype, **how)
        self._file.flush()
        step = max(1, COPY_BYTES // self.row_bytes)
        at = 0
        for start, count in self._joined():
            for first in range(start, start + count, step):
                many = min(step, start + count - first)
                block = np.fromfile(
                    self._file.name,
                    self.dtype,
                    many * math.prod(self.row_shape),
                    offset=first * self.row_bytes,
                )
                dataset[at : at + many] = block.reshape(many, *self.row_shape)
                at += many

    def _joined(self) -> Iterator[tuple[int, int]]:
        """Pieces that follow each other in the file, as one."""
        joined: list[list[int]] = []
        for start, count in self.pieces:
            if joined and sum(joined[-1]) == start:
                joined[-1][1] += count
            else:
                joined.append([start, count])
        return iter([(start, count) for start, count in joined])

    def remove(self) -> None:
        self._file.close()
        Path(self._file.name).unlink(missing_ok=True)
