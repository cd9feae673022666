"""A sample of scripts/mutations.py, which damages files of every kind some thousand times."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# not the stores without a seal, of which HDF5 itself may read some for ever
KINDS = (
    "wav flac mp3 ogg model checkpoint manifest.csv history.csv fold.json build.json "
    "metrics.json result.json overrides.yaml experiment.yaml"
).split()
KINDS += ["store", "packed store", "unsealed model"]


def test_no_damaged_file_ends_in_a_traceback_or_changes_a_verdict(trained) -> None:
    command = [sys.executable, "scripts/mutations.py", "--count", "3", "--kind", *KINDS]
    command += ["--processes", "1"]  # each imports Lightning
    command += ["--store", str(trained.store), "--run", str(trained.folder)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    table = [line for line in answer.stdout.splitlines() if line.startswith("| ")][1:]
    assert len(table) == len(KINDS)
    assert all(" | 3 | " in line and line.endswith(" | 0 |") for line in table), answer.stdout
