"""The shortcut audit beside a training."""

import json
from typing import Any


def test_a_training_is_audited(trained: Any) -> None:
    audit = json.loads((trained.folder / "metrics.json").read_text(encoding="utf-8"))["audit"]
    found = {row["key"]: row for row in audit["rows"]}
    assert {
        "loudness",
        "duration",
        "dc_offset",
        "spectral_centroid",
        "logistic_regression",
        "class_prior",
    } < found.keys()
    # build measures it, though the mel starts at 300 Hz and keeps no sound
    assert "mains_hum" in found
    assert "group site" in found
    assert (
        found["group site"]["auroc"] == 0.5
    )  # the demo is split by site, so no site says anything of another
    assert audit["duplicates"] == 0
    assert 0.0 <= audit["network"]["auroc"] <= 1.0
    assert all(sentence in trained.printed for sentence in audit["findings"])
