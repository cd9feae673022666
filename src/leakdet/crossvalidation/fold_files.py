"""The files of a cross-validation: what each fold found, whose settings a folder belongs to, and the tables of all."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakdet.errors import InputError
from leakdet.evaluation.metrics_json import metrics_content, write_metrics
from leakdet.storage.atomic import whole_file


def write_fold(path: Path, found: Mapping[str, Any]) -> None:
    """All of it or nothing: a fold file that is there is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as beside:
        beside.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def read_fold(path: Path) -> dict[str, Any]:
    """Raises `InputError` where the file is no fold's outcome."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(
            f"{path}: not the outcome of a fold ({error}). Remove it, and it is run again."
        ) from error
    if not isinstance(found, dict) or "scores" not in found:
        raise InputError(f"{path}: not the outcome of a fold. Remove it, and it is run again.")
    return found


def claim(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write down what is run in this folder; refuse to mix it with folds that were run differently."""
    path = folder / "crossval.json"
    plain = json.loads(json.dumps(settings))
    if not path.exists():
        write_fold(path, plain)
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    differing = sorted(_differences(before, plain))
    if differing:
        raise InputError(
            f"{folder}: its folds were run with other settings ({', '.join(differing)} differ). Give the same settings to go "
            "on with it, or another crossval.out."
        )


def _differences(before: Any, now: Any, at: str = "") -> list[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        keys = before.keys() | now.keys()
        return [
            found
            for key in keys
            for found in _differences(before.get(key), now.get(key), f"{at}.{key}".lstrip("."))
        ]
    return [] if before == now else [at]


def write_tables(
    folder: Path,
    results: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """predictions.csv and metrics.json (docs/metrics.md) of all protocols; returns the content of the latter.

    Each is whole at any moment: jobs that end together may both write them.
    """
    write_predictions(folder / "predictions.csv", rows)
    content = metrics_content({}, None, [], crossval=results, settings=settings)
    with whole_file(folder / "metrics.json") as beside:
        write_metrics(beside, content)
    return content


def write_predictions(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """CSV with the columns of the first row, which all have."""
    with (
        whole_file(path) as beside,
        beside.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
