"""The files beside a store, recordings.csv and build.json, and the summary that a build prints."""

import json
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import leakdet
from leakdet.building.sources import LeftOut
from leakdet.config import BuildConfig, SignalConfig
from leakdet.core.errors import counted
from leakdet.core.files import as_input_error, read_json, write_json
from leakdet.storage.overlap import values_sentences
from leakdet.storage.store import SPLITS, split_files
from leakdet.storage.writer import RecordingRow, SplitWriter
from leakdet.tables.read import read_csv
from leakdet.tables.schema import SPAN, is_reserved
from leakdet.tables.write import write_csv


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
    divided_by: str = ""  # what chose the splits, as `split_origin` says


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
    unwritten = ["mel_crc32", "live", *([] if row.channel else ["channel"])]
    unwritten += [] if row.end_s else SPAN
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
        "divided_by": report.divided_by,
        "recordings": len(report.rows),
        "left_out": [asdict(item) for item in report.left_out],
        "remarks": report.remarks,
    }
    write_json(path, content)


SHOWN = 20  # recordings left out that are named; build.json names all


def table_rows(report: BuildReport) -> list[tuple[str, str, str, str, str]]:
    """Split, label, recordings, windows and hours, in the order of the splits."""
    rows_of: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in report.rows:
        rows_of[row["split"], row["label"]].append(row)
    table = []
    for split, label in sorted(rows_of, key=lambda key: (SPLITS.index(key[0]), key[1])):
        rows = rows_of[split, label]
        windows, hours = sum(r["windows"] for r in rows), sum(r["duration_s"] for r in rows) / 3600
        leak = " (leak)" if label in report.leak_labels else ""
        table.append((split, label + leak, f"{len(rows)}", f"{windows}", f"{hours:.2f}"))
    return table


def notes(report: BuildReport) -> Iterator[str]:
    """The lines below the table."""
    named = dict.fromkeys(name for row in report.rows for name in row)
    yield from group_sentences([name for name in named if not is_reserved(name)], report.rows)
    flags = Counter(flag for row in report.rows for flag in row["flags"].split(",") if flag)
    if flags:
        yield "flags: " + ", ".join(f"{count} {flag}" for flag, count in flags.most_common())
    if short := flags["short"]:
        many = f"{short} recordings are shorter than a window: each is"
        yield (
            f"{many if short > 1 else '1 recording is shorter than a window: it is'} stored, "
            "trained on and scored as one window of its repeated sound, while predict leaves such "
            "recordings undecided"
        )
    if report.dead_windows:
        yield (
            f"{counted(report.dead_windows, 'window')} without sound (silent, stuck or dropouts), "
            "neither trained on nor scored"
        )
    yield from report.remarks
    if report.left_out:
        yield f"Left out: {len(report.left_out)} (build.json lists all of them)"
        yield from (f"  {item.path}: {item.reason}" for item in report.left_out[:SHOWN])


def group_sentences(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence on the values of each group column, and those that train shares with others."""
    values = {
        column: {
            split: {row[column] for row in rows if row["split"] == split and row.get(column)}
            for split in SPLITS
        }
        for column in columns
    }
    return values_sentences(values)


@dataclass(frozen=True)
class StoredBuild:
    """A store: its build.json and the rows of its recordings.csv."""

    folder: Path
    build: dict[str, Any]
    rows: list[dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> "StoredBuild":
        build = read_json(folder / "build.json", "the report of a build", "Build it again.")
        table, what = folder / "recordings.csv", "the table of a build"
        read = read_csv(table, what, "Build it again.")
        with as_input_error(table, what, "Build it again."):
            rows = [
                {**row, "windows": int(row["windows"]), "duration_s": float(row["duration_s"])}
                for row in read
            ]
        return cls(folder, build, rows)

    @property
    def signal(self) -> SignalConfig:
        return SignalConfig.from_dict(self.build["signal"], str(self.folder / "build.json"))


def report_of(out: Path, parts: Sequence[StoredBuild]) -> BuildReport:
    """The report of these parts as one store in `out`."""
    first = parts[0]
    report = BuildReport(out, first.signal, first.build["label_names"], first.build["leak_labels"])
    report.rows = [row for part in parts for row in part.rows]
    report.dead_windows = sum(
        row["windows"] - int(row["live_windows"]) for row in report.rows if row.get("live_windows")
    )
    report.left_out = [LeftOut(**item) for item in _distinct(parts, "left_out")]
    report.remarks = _distinct(parts, "remarks")
    origins = {part.build.get("divided_by", "") for part in parts}
    report.divided_by = origins.pop() if len(origins) == 1 else ""
    return report


def _distinct(parts: Sequence[StoredBuild], what: str) -> list[Any]:
    """Items of all parts, once each."""
    return list({json.dumps(item): item for part in parts for item in part.build[what]}.values())


def link(file: str | Path, link: str | Path) -> None:
    """Make a hard link, or a copy on a file system without links."""
    try:
        os.link(file, link)
    except OSError:
        shutil.copyfile(file, link)  # which sets no times or rights, as not every one can


def link_files(stores: Sequence[Path], folder: Path, symbolic: bool = False) -> None:
    """Make the HDF5 files of `stores`, in order, the files of one store in `folder`.

    Several files of a split become its shards. They are hard links or, `symbolic`, soft ones, and
    copies where the file system has no links.
    """
    for name in SPLITS:
        files = [file for store in stores for file in split_files(store, name)]
        for number, file in enumerate(files):
            shard = f"-{number:05d}-of-{len(files):05d}" if len(files) > 1 else ""
            target = folder / f"{name}{shard}.h5"
            made = False
            if symbolic:
                with suppress(OSError):  # a file system without them
                    target.symlink_to(file.absolute())
                    made = True
            if not made:
                link(file, target)
