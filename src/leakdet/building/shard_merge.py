"""Joins shards, each built on a machine from every n-th recording, to one store.

Every machine reads all headers, so that all find the same splits, labels and `fmax_hz`. Shard i of
n is published as `OUT.shard-i-of-n`; the merge links their files into OUT and reads no mel.
"""

import filecmp
import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leakdet.building.build_report import BuildReport, write_build_files
from leakdet.building.splits import check_both_classes
from leakdet.building.stored_build import StoredBuild, link, report_of
from leakdet.config import BuildConfig, SplitConfig
from leakdet.errors import InputError, first_few
from leakdet.storage.atomic import check_free, publish, remove_with, staged_folder
from leakdet.storage.opening import open_split, split_names
from leakdet.storage.split_overlap import check_no_overlap


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
        return report_of(out, [StoredBuild.read(out)])
    check_free(out, config.overwrite)
    shards = [StoredBuild.read(folder) for folder in _folders(out)]
    _check_alike(shards)
    report = report_of(out, shards)
    report.remarks.append(f"Merged from {len(shards)} shards.")
    _check_sounds(report.rows, out)
    settings = shards[0].build["settings"]
    with staged_folder(out) as folder:
        for shard in shards:
            for file in shard.folder.glob("*.h5"):
                link(file, folder / file.name)
        check_no_overlap([open_split(folder, name) for name in split_names(folder)])
        kept = [(row["split"], row["label"]) for row in report.rows]
        check_both_classes(kept, SplitConfig(**settings["split"]), report.leak_labels, given=True)
        overrides = {"shard": config.shard, "out": config.out, "overwrite": config.overwrite}
        write_build_files(folder, {**settings, **overrides}, report)
        publish(folder, out, [shard.folder for shard in shards])
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


def _check_alike(shards: Sequence[StoredBuild]) -> None:
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
