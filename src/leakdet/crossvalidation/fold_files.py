"""The files of a cross-validation: folds, the settings of a folder, and tables of all folds."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from leakdet.config.differences import differences
from leakdet.errors import InputError
from leakdet.evaluation.metrics_json import metrics_content
from leakdet.storage.csv_file import write_csv
from leakdet.storage.file_lock import locked
from leakdet.storage.json_file import read_json, write_json

POOLED = ".pooled"  # the folds whose tables and reports are written; locked while they are
FOLD_KEYS = ("fold", "seed", "scores", "windows", "decision_rule")


def write_fold(path: Path, outcome: Mapping[str, Any]) -> None:
    """Write the outcome of a fold atomically: a fold file that exists is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, outcome, seal=True)


def read_fold(path: Path) -> dict[str, Any]:
    """Read the outcome of a fold. Raises `InputError` where the file holds none."""
    remedy = "Remove it, and it is run again."
    outcome = read_json(path, "the outcome of a fold", remedy)
    lacking = [name for name in FOLD_KEYS if name not in outcome]
    if lacking:
        raise InputError(
            f"{path}: not the outcome of a fold (it lacks {', '.join(lacking)}). {remedy}"
        )
    return outcome


def record_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write crossval.json. Raises `InputError` where the folder has folds of other settings."""
    path = folder / "crossval.json"
    plain = json.loads(json.dumps(settings))
    if not path.exists():
        write_fold(path, plain)
        return
    stored = read_json(path, "the settings of a cross-validation", "Choose another crossval.out.")
    differing = [difference.name for difference in differences(stored, plain)]
    if differing:
        raise InputError(
            f"{folder}: its folds were run with other settings ({', '.join(differing)} differ). "
            "Give the same settings to continue it, or another crossval.out."
        )


def pooled_folds(folder: Path) -> str:
    """What `note_pooled` wrote in this folder last; empty where it has not."""
    path = folder / POOLED
    return path.read_text(encoding="utf-8") if path.exists() else ""


def state_of_folds(paths: Iterable[Path]) -> str:
    """Text that changes when a fold is added or run anew."""
    return "".join(f"{path.name} {path.stat().st_mtime_ns}\n" for path in paths)


def note_pooled(folder: Path, state: str) -> None:
    """Note that the tables and reports of these folds are written."""
    (folder / POOLED).write_text(state, encoding="utf-8")


@contextmanager
def pooling(folder: Path) -> Iterator[None]:
    """Let one job after the other pool the folds; all at once where files cannot be locked."""
    with ExitStack() as stack:
        with suppress(OSError):
            stack.enter_context(locked(folder / POOLED))
        yield


def write_tables(
    folder: Path, results: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], **more: Any
) -> dict[str, Any]:
    """Write predictions.csv and metrics.json of all protocols; return the content of the latter.

    `more` are further entries of metrics.json, as the settings. Both files are written atomically.
    """
    write_csv(folder / "predictions.csv", rows)
    content = metrics_content({}, None, [], crossval=results, **more)
    write_json(folder / "metrics.json", content)
    return content
