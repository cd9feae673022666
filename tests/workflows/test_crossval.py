"""`crossval` as a sweep of jobs that share their folds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def test_jobs_of_a_sweep_share_the_folds_and_the_last_one_pools_them(
    site_store: Path, tmp_path: Path, process: Any, schema_errors: Any
) -> None:
    """In parallel, by the joblib launcher."""
    pytest.importorskip(
        "hydra_plugins.hydra_joblib_launcher", reason="hydra-joblib-launcher is not installed"
    )
    settings = (f"data.store={site_store}", "network=linear", "trainer.max_epochs=2")
    settings += ("crossval.group_by=sensor", "crossval.where={site:[s0,s1]}")
    jobs = ("crossval.parts=2", "crossval.part=0,1", "hydra.sweep.dir=sweep")
    result = process("crossval", "-m", "hydra/launcher=joblib", *settings, *jobs, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    content = json.loads((tmp_path / "sweep" / "metrics.json").read_text(encoding="utf-8"))
    assert schema_errors(content) == []
    assert content["crossval"]["leave-out-sensor"]["recording"]["n"] == 16
    scores = [
        json.loads(file.read_text(encoding="utf-8"))["scores"]
        for file in sorted((tmp_path / "sweep" / "folds").glob("*.json"))
    ]
    assert [len(fold) for fold in scores] == [8, 8]
    assert np.isfinite([value for fold in scores for value in fold.values()]).all()
