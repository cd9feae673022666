"""The shortcut audit of a training."""

import json
from typing import Any


def test_a_training_is_audited(trained: Any) -> None:
    audit = json.loads((trained.folder / "metrics.json").read_text(encoding="utf-8"))["audit"]
    rows = {row["key"]: row for row in audit["rows"]}
    traits = {"loudness", "duration", "dc_offset", "spectral_centroid"}
    assert traits | {"logistic_regression", "class_prior"} < rows.keys()
    # Measured by build: the store keeps no sound, and its mel starts at 300 Hz.
    assert "mains_hum" in rows
    # The demo is split by site, so a site in train says nothing about those in test.
    assert rows["group site"]["auroc"] == 0.5
    assert audit["duplicates"] == 0
    assert 0.0 <= audit["network"]["auroc"] <= 1.0
    assert all(sentence in trained.printed for sentence in audit["findings"])
