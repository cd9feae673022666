"""The file beside the rows: model, decision, settings and counts."""

import json
from pathlib import Path

from leakdet.scoring.audio_detector import load_detector
from leakdet.scoring.sidecar import now, sidecar_path, write_sidecar
from leakdet.scoring.summary import VerdictCounts
from leakdet.scoring.verdict import Verdict


def test_it_says_which_model_decided_how_and_what_came_of_it(example_files, tmp_path: Path) -> None:
    detector = load_detector(example_files.model, device="cpu", threshold=0.75)
    counts = VerdictCounts()
    counts.add(Verdict("a", "leak", 0.9, 0.75, flags=["clipped", "met_in_training"]))
    counts.add(Verdict("b", "undecided", None, 0.75, reason="short", flags=["short"]))
    counts.add(Verdict("c", None, None, 0.75, error="no sound"))
    out = tmp_path / "rows.csv"
    write_sidecar(
        out,
        detector,
        counts,
        inputs=["in", "empty"],
        left_out=["left out empty: no audio there"],
        settings={"format": "csv"},
        started_at=now(),
    )
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv.json"]
    content = json.loads(sidecar_path(out).read_text())
    assert content["model"]["path"] == str(example_files.model)
    assert content["model"]["hash"] == detector.mel_detector.file_hash
    assert content["model"]["verdict"] is None
    assert content["decision_rule"]["threshold"] == 0.75
    assert "0.75 instead of the model's own 0.5" in content["decided_anew"]
    assert content["settings"] == {"format": "csv", "device": "cpu"}
    assert content["inputs"] == ["in", "empty"]
    assert content["left_out"] == ["left out empty: no audio there"]
    assert content["recordings"] == 3
    assert content["decisions"] == {"leak": 1, "no_leak": 0, "undecided": 1, "failed": 1}
    assert content["reasons"] == {"short": 1}
    assert content["flags"] == {"clipped": 1, "met_in_training": 1, "short": 1}
    assert content["started_at"] <= content["finished_at"]
