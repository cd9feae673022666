"""Writes a split of a store as an HDF5 file, in the layout that `store.py` describes."""

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
from leakdet.core.files import USER_BLOCK_BYTES
from leakdet.storage.hdf5 import seal_h5
from leakdet.storage.store import GROUP, SCHEMA_VERSION, offsets_of

PAGE_BYTES = 4096  # data sets begin at a page of memory when they are mapped
COPY_BYTES = 8 << 20
CHUNK_WINDOWS = 4  # compressed stores only: reading a window must not unpack a whole recording


@runtime_checkable
class BinaryFile(Protocol):
    """An open binary file."""

    def seek(self, offset: int, /) -> int: ...
    def read(self, size: int, /) -> bytes: ...


@dataclass
class RecordingRow:
    """One recording of a split: a row of its HDF5 file."""

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
    channel: int = 0  # of the file at `path`, from 1; 0: its channels were made one
    start_s: float = 0.0  # where in that file it begins
    end_s: float = 0.0  # and ends; 0: it is the whole file
    live: Bool[np.ndarray, " W"] | None = None  # which windows hold sound; None: unknown


# data sets that are plain copies of a RecordingRow field, with their types
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

    The size of a contiguous data set must be known when it is created, so mel and sound go to spool
    files first. Memory holds the rows, never the mel.

    `group_by` are the group columns by which the splits were kept apart. `columns` are those of the
    whole split, which are written even where no recording here has a value.
    """

    folder: Path
    name: str
    signal: SignalConfig
    waveform: str = "none"
    group_by: Sequence[str] = ()
    columns: Sequence[str] = ()
    rows: list[RecordingRow] = field(default_factory=list)

    def __post_init__(self) -> None:
        mel_file, sound_file = (self.folder / f".{self.name}.{kind}" for kind in ("mel", "sound"))
        self._mel = _Spool(mel_file, self.signal.mel_shape, np.dtype(np.float16))
        sound_type = np.dtype(np.int16 if self.waveform == "none" else self.waveform)
        self._sound = _Spool(sound_file, (), sound_type)
        self._sound_crc32: list[int] = []  # for each of its pieces

    def add(self, row: RecordingRow, mel: BinaryFile, sound: BinaryFile | None) -> None:
        """Append a recording; `mel` and `sound` are files of raw little-endian values."""
        row.mel_crc32 = self._mel.append(mel)
        if sound is not None:
            self._sound_crc32.append(self._sound.append(sound))
        self.rows.append(row)

    def remove(self, recording_id: str) -> None:
        """Remove a recording; its bytes stay in the spool file but are not copied from there."""
        index = [row.recording_id for row in self.rows].index(recording_id)
        del self.rows[index], self._mel.pieces[index]
        if self.waveform != "none":
            del self._sound.pieces[index], self._sound_crc32[index]

    def write(
        self,
        path: Path,
        label_names: Sequence[str],
        leaks: Sequence[str],
        compression: str = "none",
    ) -> None:
        """Write the HDF5 file and remove the spool files."""
        pages = {"alignment_threshold": PAGE_BYTES, "alignment_interval": PAGE_BYTES}
        pages["locking"] = False  # nobody else knows the file, and not every file system can lock
        with h5py.File(path, "w", userblock_size=USER_BLOCK_BYTES, **pages) as file:
            file.attrs.update(self._attributes(label_names, leaks))
            for name, values, dtype in self._columns(list(label_names)):
                file.create_dataset(name, data=values, dtype=dtype)
            live = [row.live for row in self.rows if row.live is not None]
            if live and len(live) == len(self.rows):
                file.create_dataset("live", data=np.concatenate(live))
            self._mel.write_to(file, "mel", compression)
            if self.waveform != "none":
                sizes = [count for _, count in self._sound.pieces]
                file.create_dataset("waveform_offsets", data=offsets_of(sizes))
                file.create_dataset("waveform_crc32", data=np.array(self._sound_crc32, np.uint32))
                self._sound.write_to(file, "waveform")
        seal_h5(path)
        self.discard()

    def _attributes(self, label_names: Sequence[str], leaks: Sequence[str]) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "signal": json.dumps(asdict(self.signal)),
            "signal_hash": self.signal.hash,
            "label_names": json.dumps(list(label_names)),
            "leak_labels": json.dumps(list(leaks)),
            "group_by": json.dumps(list(self.group_by)),
            "created_by": f"leakdet {leakdet.__version__}",
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def _columns(self, label_names: list[str]) -> Iterator[tuple[str, Sequence[Any], Any]]:
        """Name, values and type of each data set that has one value per recording."""
        rows, text = self.rows, h5py.string_dtype()
        for name, dtype in _ROW_FIELDS:
            yield name, [getattr(row, name) for row in rows], dtype
        yield "flags", [",".join(row.flags) for row in rows], text
        yield "label_id", [label_names.index(row.label) for row in rows], np.int16
        if any(row.channel for row in rows):
            yield "channel", [row.channel for row in rows], np.int32
        if any(row.end_s for row in rows):
            yield "start_s", [row.start_s for row in rows], np.float64
            yield "end_s", [row.end_s for row in rows], np.float64
        for column in sorted({*self.columns, *(name for row in rows for name in row.groups)}):
            yield f"{GROUP}{column}", [row.groups.get(column, "") for row in rows], text
        yield "recording_offsets", offsets_of([row.windows for row in rows]).tolist(), np.int64

    def discard(self) -> None:
        """Remove the spool files."""
        self._mel.remove()
        self._sound.remove()


class _Spool:
    """A plain file of rows of one shape; `pieces` are (first row, row count) of each recording."""

    def __init__(self, path: Path, row_shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.row_shape, self.dtype = row_shape, dtype
        self.row_bytes = math.prod(row_shape) * dtype.itemsize
        self.pieces: list[tuple[int, int]] = []
        self._file = path.open("w+b")

    def append(self, source: BinaryFile) -> int:
        """Append all of `source` and return its CRC-32."""
        start, crc = self._file.tell(), 0
        source.seek(0)
        while block := source.read(1 << 20):
            crc = zlib.crc32(block, crc)
            self._file.write(block)
        self.pieces.append((start // self.row_bytes, (self._file.tell() - start) // self.row_bytes))
        return crc

    def write_to(self, file: h5py.File, name: str, compression: str = "none") -> None:
        """Copy the pieces into a data set of `file`, one after another."""
        rows = sum(count for _, count in self.pieces)
        options: dict[str, Any] = {}
        if compression != "none" and rows:
            options = {
                "compression": compression,
                "shuffle": True,
                "chunks": (min(CHUNK_WINDOWS, rows), *self.row_shape),
            }
        shape = (rows, *self.row_shape)
        dataset = file.create_dataset(name, shape=shape, dtype=self.dtype, **options)
        self._file.flush()
        step, written = max(1, COPY_BYTES // self.row_bytes), 0
        for start, stop in self._joined():
            for first in range(start, stop, step):
                count = min(step, stop - first)
                items, offset = count * math.prod(self.row_shape), first * self.row_bytes
                block = np.fromfile(self._file.name, self.dtype, items, offset=offset)
                dataset[written : written + count] = block.reshape(count, *self.row_shape)
                written += count

    def _joined(self) -> list[tuple[int, int]]:
        """Bounds [start, stop) of runs of pieces that follow each other in the file."""
        runs: list[tuple[int, int]] = []
        for start, count in self.pieces:
            if runs and runs[-1][1] == start:
                runs[-1] = (runs[-1][0], start + count)
            else:
                runs.append((start, start + count))
        return runs

    def remove(self) -> None:
        self._file.close()
        Path(self._file.name).unlink(missing_ok=True)
