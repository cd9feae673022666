"""Samples of scripts/kills.py, which ends every long command in ten ways, and of kills_parts.py."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
RECORDINGS = 24  # as scripts/kills.py counts


@pytest.mark.slow
def test_what_was_finished_stays_and_the_same_command_ends_well(
    tmp_path: Path, trained: Any
) -> None:
    shutil.copytree(trained.store, tmp_path / "base" / "store")
    (tmp_path / "base" / "model").symlink_to(trained.folder)
    for sound in sorted((tmp_path / "base" / "store" / "audio").rglob("*.wav"))[RECORDINGS:]:
        sound.unlink()
    command = [sys.executable, "scripts/kills.py", "--folder", str(tmp_path)]
    command += ["--verbs", "predict", "--ends", "TERM,lost"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.split() == ["predict", "TERM", "held", "predict", "lost", "held"]


@pytest.mark.slow
def test_parts_go_on_after_a_kill_within_a_batch_and_before_a_part_has_its_name() -> None:
    command = [sys.executable, "scripts/kills_parts.py", "--kinds", "driver", "--at", "3,4"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout.split()) == (0, ["parts", "driver", "held"]), answer
