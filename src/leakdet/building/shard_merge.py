"""One store built on several machines: each hears every n-th recording, and a merge joins the files without reading any mel.

Every machine reads all headers, so that all arrive at the same splits, vocabulary and `fmax_hz`. Shard i of n is published as
`OUT.shard-i-of-n`; the merge links the files of all into OUT.
"""

import csv
import filecmp
import glob
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakdet.building.build_report import BuildReport, describe
from leakdet.building.sources import LeftOut
from leakdet.building.splits import check_both_classes
from leakdet.config import BuildConfig, SignalConfig, SplitConfig
from leakdet.errors import InputError, first_few
from leakdet.storage.atomic import check_free, publish, put_away, workplace
from leakdet.storage.integrity import check_apart
from leakdet.storage.store import SPLITS, open_split, split_files

# what machines may do differently
OWN_SETTINGS = ("shard", "workers", "verify", "overwrite", "out")


@dataclass(frozen=True)
class _Built:
    """What one shard says of itself."""

    folder: Path
    about: dict[str, Any]
    rows: list[dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> "_Built":
        about = json.loads((folder / "build.json").read_text(encoding="utf-8"))
        with (folder / "recordings.csv").open(newline="", encoding="utf-8") as file:
            rows = [
                {**row, "windows": int(row["windows"]), "duration_s": float(row["duration_s"])}
                for row in csv.DictReader(file)
            ]
        return cls(folder, about, rows)

    @property
    def settings(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in self.about["settings"].items()
            if name not in OWN_SETTINGS
        }


def merge_shards(config: BuildConfig) -> BuildReport:
    """Join the shards of `config.out`. Reads headers and tables only; the mel stays where it is and gets a second name.

    A merge that was killed while it cleared the shards away is finished.

    Raises:
        InputError: shards are missing, were built with other settings, or hold the same sound.
    """
    out = Path(config.out).absolute()
    merged_already = _merged_already(out)
    if merged_already:
        with workplace(out) as folder:
            put_away(folder, merged_already)
        return _report(out, [_Built.read(out)])
    check_free(out, config.overwrite)
    shards = [_Built.read(folder) for folder in _folders(out)]
    _check_alike(shards)
    report = _report(out, shards)
    report.remarks.append(f"Merged from {len(shards)} shards.")
    _check_sounds(report.rows, out)
    heard_with = shards[0].about["settings"]
    with workplace(out) as folder:
        for shard in shards:
            for file in shard.folder.glob("*.h5"):
                _second_name(file, folder / file.name)
        check_apart([open_split(folder, name) for name in SPLITS if split_files(folder, name)])
        kept = [(row["split"], row["label"]) for row in report.rows]
        check_both_classes(kept, SplitConfig(**heard_with["split"]), report.leak_label, given=True)
        here = {"shard": config.shard, "out": config.out, "overwrite": config.overwrite}
        describe(folder, {**heard_with, **here}, report)
        publish(folder, out, [shard.folder for shard in shards])
    return report


def _report(out: Path, parts: Sequence[_Built]) -> BuildReport:
    first = parts[0]
    signal = SignalConfig.from_dict(first.about["signal"], str(first.folder / "build.json"))
    report = BuildReport(out, signal, first.about["label_names"], first.about["leak_label"])
    report.rows = [row for part in parts for row in part.rows]
    report.surrogates = sum(part.about.get("surrogates", 0) for part in parts)
    report.left_out = [LeftOut(**item) for item in _distinct(parts, "left_out")]
    report.remarks = _distinct(parts, "remarks")
    return report


def _shard_folders(out: Path) -> list[Path]:
    return sorted(out.parent.glob(f"{glob.escape(out.name)}.shard-*-of-*"))


def _merged_already(out: Path) -> list[Path]:
    """The shards that are there, if every file of them lies in `out` already; else none."""

    def is_merged(folder: Path) -> bool:
        pairs = [(file, out / file.name) for file in folder.glob("*.h5")]
        return bool(pairs) and all(
            copy.exists() and filecmp.cmp(file, copy) for file, copy in pairs
        )

    folders = _shard_folders(out)
    return folders if all(is_merged(folder) for folder in folders) else []


def _folders(out: Path) -> list[Path]:
    folders = _shard_folders(out)
    if not folders:
        raise InputError(
            f"{out}: there are no shards to merge ({out.name}.shard-0-of-n); build them with shard=0/n, 1/n, ..."
        )
    count = int(folders[0].name.rsplit("-", 1)[1])
    wanted = [out.parent / f"{out.name}.shard-{number}-of-{count}" for number in range(count)]
    missing = [folder.name for folder in wanted if not (folder / "build.json").exists()]
    stray = sorted(folder.name for folder in set(folders) - set(wanted))
    if missing or stray:
        raise InputError(
            f"{out.parent}: of {count} shards {first_few(missing) or 'none'} are missing and {first_few(stray) or 'none'} "
            "do not belong. Build the missing ones, remove the others."
        )
    return wanted


def _check_alike(shards: Sequence[_Built]) -> None:
    first = shards[0]
    for shard in shards[1:]:
        for what in ("signal", "label_names", "leak_label", "created_by"):
            if shard.about[what] != first.about[what]:
                raise InputError(
                    f"{shard.folder}: its {what} is {shard.about[what]}, that of {first.folder.name} {first.about[what]}. "
                    "Build all shards from the same source with the same leakdet."
                )
        differing = [
            name for name, value in shard.settings.items() if value != first.settings.get(name)
        ]
        if differing:
            raise InputError(
                f"{shard.folder}: {', '.join(differing)} differ from {first.folder.name}; build it with the same settings."
            )


def _check_sounds(rows: Sequence[dict[str, Any]], out: Path) -> None:
    """Within a shard the build leaves copies out; between shards nobody has compared yet."""
    seen: dict[str, str] = {}
    copies = [
        f"{row['recording_id']} (as {seen[row['content_sha256']]})"
        for row in rows
        if seen.setdefault(row["content_sha256"], row["recording_id"]) != row["recording_id"]
    ]
    if copies:
        raise InputError(
            f"{out}: {len(copies)} recordings of different shards are the same sound: {first_few(copies)}. Take the copies out "
            "of the source and build the shards again, or build without shard=, which leaves them out itself."
        )


def _distinct(shards: Sequence[_Built], what: str) -> list[Any]:
    """Items of all shards, once each: what the headers tell is told by every shard."""
    return list({json.dumps(item): item for shard in shards for item in shard.about[what]}.values())


def _second_name(file: Path, link: Path) -> None:
    """A hard link, so that a kill loses nothing and nothing is copied; a copy where the file system has no links."""
    try:
        os.link(file, link)
    except OSError:
        shutil.copy2(file, link)
