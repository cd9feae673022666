"""A sample of scripts/odd_audio.py, which reads thousands of odd files."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_no_odd_file_is_read_in_part_without_a_word(tmp_path: Path) -> None:
    command = [sys.executable, "scripts/odd_audio.py", "--every", "97", "--out", tmp_path / "t.csv"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert len((tmp_path / "t.csv").read_text().splitlines()) > 40
