"""A store that was built, by the files beside its mel: build.json and recordings.csv."""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakdet.building.build_report import BuildReport
from leakdet.building.sources import LeftOut
from leakdet.config import SignalConfig
from leakdet.storage.csv_file import read_csv
from leakdet.storage.json_file import read_json
from leakdet.storage.opening import SURROGATES
from leakdet.storage.readable import understood
from leakdet.storage.store import SPLITS, split_files


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
        with understood(table, what, "Build it again."):
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
    report.surrogates = sum(part.build.get("surrogates", 0) for part in parts)
    report.left_out = [LeftOut(**item) for item in _distinct(parts, "left_out")]
    report.remarks = _distinct(parts, "remarks")
    return report


def _distinct(parts: Sequence[StoredBuild], what: str) -> list[Any]:
    """Items of all parts, once each."""
    return list({json.dumps(item): item for part in parts for item in part.build[what]}.values())


def link(file: str | Path, link: str | Path) -> None:
    """Make a hard link, or a copy on a file system without links."""
    try:
        os.link(file, link)
    except OSError:
        shutil.copy2(file, link)


def link_files(stores: Sequence[Path], folder: Path, symbolic: bool = False) -> None:
    """Make the HDF5 files of `stores`, in order, the files of one store in `folder`.

    Several files of a split become its shards. They are hard links or, `symbolic`, soft ones.
    """
    for name in (*SPLITS, SURROGATES):
        files = [file for store in stores for file in split_files(store, name)]
        for number, file in enumerate(files):
            shard = f"-{number:05d}-of-{len(files):05d}" if len(files) > 1 else ""
            target = folder / f"{name}{shard}.h5"
            if symbolic:
                target.symlink_to(file.absolute())
            else:
                link(file, target)
