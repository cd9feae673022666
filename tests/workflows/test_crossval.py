"""`leakdet.crossval` as a sweep of jobs that share their folds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakdet._door import added


@pytest.mark.parametrize(
    ("argument", "seen"),
    [
        ("crossval.where={pipe:[1,3]}", "++crossval.where={pipe:[1,3]}"),
        ("crossval.where.pipe=1", "++crossval.where.pipe=1"),
        ("crossval.whereabouts=1", "crossval.whereabouts=1"),
        ("+crossval.where.pipe=1", "+crossval.where.pipe=1"),
        ("--help", "--help"),
    ],
)
def test_keys_that_the_user_invents_need_no_mark(argument: str, seen: str) -> None:
    assert added(argument, ("crossval.where", "crossval.protocols")) == seen


def test_a_sweep_shares_the_folds_and_its_last_job_pools_them(
    write_store: Any, planted: Any, tmp_path: Path, process: Any, schema_errors: Any
) -> None:
    """Side by side, by the launcher that a user would take."""
    pytest.importorskip(
        "hydra_plugins.hydra_joblib_launcher", reason="hydra-joblib-launcher is not installed"
    )
    recordings = [
        planted(
            "leak" if number % 2 else "other",
            seed=number,
            bump_db=8.0 * (number % 2),
            groups={"site": f"s{number // 8}", "sensor": "AB"[number % 4 // 2]},
        )
        for number in range(24)
    ]
    store = write_store(train=recordings[:12], val=recordings[12:20], test=recordings[20:])
    arguments = (
        "-m",
        "hydra/launcher=joblib",
        f"data.store={store}",
        "network=linear",
        "trainer.max_epochs=2",
        "crossval.group_by=sensor",
        "crossval.where={site:[s0,s1]}",
        "crossval.parts=2",
        "crossval.part=0,1",
        "hydra.sweep.dir=sweep",
    )
    run = process("crossval", *arguments, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    content = json.loads((tmp_path / "sweep" / "metrics.json").read_text(encoding="utf-8"))
    assert schema_errors(content) == []
    assert content["crossval"]["leave-out-sensor"]["recording"]["n"] == 16
    scores = [
        json.loads(file.read_text(encoding="utf-8"))["scores"]
        for file in sorted((tmp_path / "sweep" / "folds").glob("*.json"))
    ]
    assert [len(found) for found in scores] == [8, 8]
    assert np.isfinite([value for found in scores for value in found.values()]).all()
