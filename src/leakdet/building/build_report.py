"""The files beside a store: recordings.csv, a row each, and build.json, how it was made."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import leakdet
from leakdet.building.sources import LeftOut
from leakdet.config import BuildConfig, SignalConfig
from leakdet.storage.csv_file import write_csv
from leakdet.storage.json_file import write_json
from leakdet.storage.writer import RecordingRow, SplitWriter


@dataclass
class BuildReport:
    """The result of a build: rows of recordings.csv, recordings left out, remarks for the user."""

    out: Path
    signal: SignalConfig
    label_names: list[str] = field(default_factory=list)
    leak_labels: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    dead_windows: int = 0  # stored, but neither trained on nor scored
    surrogates: int = 0  # in a file of their own, not among the rows


def write_splits(
    writers: dict[str, SplitWriter], folder: Path, config: BuildConfig, report: BuildReport
) -> None:
    """Write each split's HDF5 file and add its rows to the report."""
    for name, writer in writers.items():
        report.rows += [_csv_row(name, row) for row in writer.rows]
        report.dead_windows += sum(int((~r.live).sum()) for r in writer.rows if r.live is not None)
        path = folder / f"{name}.h5"
        writer.write(path, report.label_names, report.leak_labels, config.compression)


def write_build_files(folder: Path, settings: Mapping[str, Any], report: BuildReport) -> None:
    """Write recordings.csv and build.json; `settings` are those that extracted the recordings."""
    write_csv(folder / "recordings.csv", report.rows)
    _write_build_json(folder / "build.json", settings, report)


def _csv_row(split: str, row: RecordingRow) -> dict[str, Any]:
    values = asdict(row)
    groups = values.pop("groups")
    unwritten = ("mel_crc32", "surrogate_of", "live", *([] if row.channel else ["channel"]))
    for name in unwritten:
        values.pop(name)
    values["live_windows"] = "" if row.live is None else int(row.live.sum())
    head = {
        "recording_id": values.pop("recording_id"),
        "split": split,
        "label": values.pop("label"),
        "path": values.pop("path"),
    }
    return {**head, **groups, **values, "flags": ",".join(row.flags)}


def _write_build_json(path: Path, settings: Mapping[str, Any], report: BuildReport) -> None:
    content = {
        "created_by": f"leakdet {leakdet.__version__}",
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": dict(settings),
        "signal": asdict(report.signal),
        "signal_hash": report.signal.hash,
        "label_names": report.label_names,
        "leak_labels": report.leak_labels,
        "recordings": len(report.rows),
        "surrogates": report.surrogates,
        "left_out": [asdict(item) for item in report.left_out],
        "remarks": report.remarks,
    }
    write_json(path, content)
