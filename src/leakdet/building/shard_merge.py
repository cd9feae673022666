"""Joins shards, each built on a machine from every n-th recording, to one store.

Every machine reads all headers, so that all find the same splits, labels and `fmax_hz`. Shard i of
n is published as `OUT.shard-i-of-n`; the merge links their files into OUT and reads no mel.
"""

import filecmp
import glob
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakdet.building.build_report import BuildReport, write_build_files
from leakdet.building.sources import LeftOut
from leakdet.building.splits import check_both_classes
from leakdet.config import BuildConfig, SignalConfig, SplitConfig
from leakdet.errors import InputError, first_few
from leakdet.storage.atomic import check_free, publish, remove_with, staged_folder
from leakdet.storage.csv_file import read_csv
from leakdet.storage.json_file import read_json
from leakdet.storage.opening import open_split, split_names
from leakdet.storage.readable import understood
from leakdet.storage.split_overlap import check_no_overlap

# settings in which shards may differ
SHARD_SETTINGS = ("shard", "workers", "verify", "overwrite", "out", "log")


@dataclass(frozen=True)
class _Shard:
    """One shard (or a merged store): its build.json and the rows of its recordings.csv."""

    folder: Path
    build: dict[str, Any]
    rows: list[dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> "_Shard":
        build = read_json(folder / "build.json", "the report of a build", "Build this shard again.")
        table, what = folder / "recordings.csv", "the table of a build"
        read = read_csv(table, what, "Build this shard again.")
        with understood(table, what, "Build this shard again."):
            rows = [
                {**row, "windows": int(row["windows"]), "duration_s": float(row["duration_s"])}
                for row in read
            ]
        return cls(folder, build, rows)

    @property
    def settings(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in self.build["settings"].items()
            if name not in SHARD_SETTINGS
        }


def merge_shards(config: BuildConfig) -> BuildReport:
    """Join the shards of `config.out`; a merge that was killed while removing them is finished.

    Raises:
        InputError: shards are missing, were built with other settings, or hold the same sound.
    """
    out = Path(config.out).absolute()
    merged = _merged_already(out)
    if merged:
        with staged_folder(out) as folder:
            remove_with(folder, merged)
        return _report(out, [_Shard.read(out)])
    check_free(out, config.overwrite)
    shards = [_Shard.read(folder) for folder in _folders(out)]
    _check_alike(shards)
    report = _report(out, shards)
    report.remarks.append(f"Merged from {len(shards)} shards.")
    _check_sounds(report.rows, out)
    settings = shards[0].build["settings"]
    with staged_folder(out) as folder:
        for shard in shards:
            for file in shard.folder.glob("*.h5"):
                _link(file, folder / file.name)
        check_no_overlap([open_split(folder, name) for name in split_names(folder)])
        kept = [(row["split"], row["label"]) for row in report.rows]
        check_both_classes(kept, SplitConfig(**settings["split"]), report.leak_labels, given=True)
        overrides = {"shard": config.shard, "out": config.out, "overwrite": config.overwrite}
        write_build_files(folder, {**settings, **overrides}, report)
        publish(folder, out, [shard.folder for shard in shards])
    return report


def _report(out: Path, parts: Sequence[_Shard]) -> BuildReport:
    first = parts[0]
    signal = SignalConfig.from_dict(first.build["signal"], str(first.folder / "build.json"))
    report = BuildReport(out, signal, first.build["label_names"], first.build["leak_labels"])
    report.rows = [row for part in parts for row in part.rows]
    report.dead_windows = sum(
        row["windows"] - int(row["live_windows"]) for row in report.rows if row.get("live_windows")
    )
    report.surrogates = sum(part.build.get("surrogates", 0) for part in parts)
    report.left_out = [LeftOut(**item) for item in _distinct(parts, "left_out")]
    report.remarks = _distinct(parts, "remarks")
    return report


def _shard_folders(out: Path) -> list[Path]:
    return sorted(out.parent.glob(f"{glob.escape(out.name)}.shard-*-of-*"))


def _merged_already(out: Path) -> list[Path]:
    """The remaining shards, if `out` has all of their files already; else none."""

    def is_merged(folder: Path) -> bool:
        pairs = [(file, out / file.name) for file in folder.glob("*.h5")]
        same = (copy.exists() and filecmp.cmp(file, copy) for file, copy in pairs)
        return bool(pairs) and all(same)

    folders = _shard_folders(out)
    return folders if all(is_merged(folder) for folder in folders) else []


def _folders(out: Path) -> list[Path]:
    folders = _shard_folders(out)
    if not folders:
        raise InputError(
            f"{out}: there are no shards to merge ({out.name}.shard-0-of-n); "
            "build them with shard=0/n, 1/n, ..."
        )
    count = int(folders[0].name.rsplit("-", 1)[1])
    wanted = [out.parent / f"{out.name}.shard-{number}-of-{count}" for number in range(count)]
    missing = [folder.name for folder in wanted if not (folder / "build.json").exists()]
    stray = sorted(folder.name for folder in set(folders) - set(wanted))
    if missing or stray:
        raise InputError(
            f"{out.parent}: of {count} shards {first_few(missing) or 'none'} are missing and "
            f"{first_few(stray) or 'none'} do not belong. "
            "Build the missing ones, remove the others."
        )
    return wanted


def _check_alike(shards: Sequence[_Shard]) -> None:
    first = shards[0]
    for shard in shards[1:]:
        for what in ("signal", "label_names", "leak_labels", "created_by"):
            if shard.build[what] != first.build[what]:
                raise InputError(
                    f"{shard.folder}: its {what} is {shard.build[what]}, that of "
                    f"{first.folder.name} {first.build[what]}. "
                    "Build all shards from the same source with the same leakdet."
                )
        differing = [
            name for name, value in shard.settings.items() if value != first.settings.get(name)
        ]
        if differing:
            raise InputError(
                f"{shard.folder}: {', '.join(differing)} differ from {first.folder.name}; "
                "build it with the same settings."
            )


def _check_sounds(rows: Sequence[dict[str, Any]], out: Path) -> None:
    """Refuse equal sounds in two shards; within a shard the build has left copies out."""
    seen: dict[str, str] = {}
    copies = [
        f"{row['recording_id']} (as {seen[row['content_sha256']]})"
        for row in rows
        if seen.setdefault(row["content_sha256"], row["recording_id"]) != row["recording_id"]
    ]
    if copies:
        raise InputError(
            f"{out}: {len(copies)} recordings of different shards are the same sound: "
            f"{first_few(copies)}. Take the copies out of the source and build the shards again, "
            "or build without shard=, which leaves them out itself."
        )


def _distinct(shards: Sequence[_Shard], what: str) -> list[Any]:
    """Items of all shards, once each: those that come from the headers are in every shard."""
    return list({json.dumps(item): item for shard in shards for item in shard.build[what]}.values())


def _link(file: Path, link: Path) -> None:
    """Make a hard link, or a copy on a file system without links."""
    try:
        os.link(file, link)
    except OSError:
        shutil.copy2(file, link)
