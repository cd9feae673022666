"""The file beside the rows that says how they came about, so that they can be judged later."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import leakdet
from leakdet.storage.json_file import write_json

if TYPE_CHECKING:  # `sidecar_path` is asked for before torch is imported
    from leakdet.scoring.audio_detector import Detector
    from leakdet.scoring.summary import VerdictCounts


def sidecar_path(out: Path) -> Path:
    """`verdicts.csv.json` beside `verdicts.csv`."""
    return out.with_name(f"{out.name}.json")


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_sidecar(
    out: Path,
    detector: "Detector",
    counts: "VerdictCounts",
    *,
    inputs: Sequence[str],
    left_out: Sequence[str],
    settings: Mapping[str, Any],
    started_at: str,
) -> None:
    """Write the sidecar of the rows in `out` atomically.

    `left_out` says what of `inputs` was not listed, `settings` are those of the command.
    """
    content = {
        "rows": out.name,
        "started_at": started_at,
        "finished_at": now(),
        **run_facts(detector, settings),
        "inputs": list(inputs),
        "left_out": list(left_out),
        **counts.to_json(),
    }
    write_json(sidecar_path(out), content)


def run_facts(detector: "Detector", settings: Mapping[str, Any]) -> dict[str, Any]:
    """What makes rows: version, model with its own verdict, decision rule, signal, settings."""
    model = detector.mel_detector
    return {
        "created_by": f"leakdet {leakdet.__version__}",
        "model": {
            "path": str(detector.path.absolute()),
            "hash": model.file_hash,
            "created_by": model.card.get("created_by"),
            "created_at": model.card.get("created_at"),
            "verdict": model.card.get("verdict"),
        },
        "decision_rule": model.rule.to_json(),
        "decided_anew": detector.decided_anew or None,
        "signal": asdict(model.signal) if model.signal else None,
        "settings": {**settings, "device": model.device},
    }
