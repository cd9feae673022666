"""A sample of scripts/odd_audio.py, which reads hundreds of odd files, and its page."""

import subprocess
import sys
from pathlib import Path

from leakdet.acoustics.audio_listing import AUDIO_SUFFIXES

ROOT = Path(__file__).parents[1]


def test_no_odd_file_is_read_in_part_without_a_word(tmp_path: Path) -> None:
    command = [sys.executable, "scripts/odd_audio.py", "--every", "37", "--out", tmp_path / "t.csv"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert len((tmp_path / "t.csv").read_text().splitlines()) > 50


def test_the_page_names_every_suffix_and_flag() -> None:
    page = (ROOT / "docs" / "files.md").read_text()
    assert [suffix for suffix in sorted(AUDIO_SUFFIXES) if f"`{suffix}`" not in page] == []
    flags = (
        "short silent stuck dropouts truncated damaged header_mended channels_cancel "
        "clipped over_full_scale narrow_band surrogate converted"
    )
    assert [flag for flag in flags.split() if f"| `{flag}` |" not in page] == []
