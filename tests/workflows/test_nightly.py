"""The whole night of docs/nightly.md: its script, with a fetch and a mail that pretend."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/nightly.md").read_text(encoding="utf-8")
STUBS = {
    "leakdet": f'exec {sys.executable} -m leakdet "$@"',
    # `rsync -a --ignore-existing SOURCE/ NIGHT/`
    "rsync": 'cp -n "${3%/}"/* "$4"; echo "rsync: one warning" >&2; exit ${RSYNC_CODE:-0}',
    "mail": 'printf "%s\\n" "$@" >mail.arguments; cat >mail.text',
}


@pytest.fixture
def place(tmp_path: Path, trained) -> Path:
    """A folder with the script, the model, five nights of a collector and stubs of other programs."""
    script = re.search(r"```bash\n(#!/bin/bash\n# nightly\.sh.*?)```", PAGE, flags=re.DOTALL)
    assert script
    text = script[1].replace("/srv/leaks", str(tmp_path)).replace("collector:nights", "nights")
    (tmp_path / "nightly.sh").write_text(text)
    for name, command in STUBS.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{command}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    shutil.copy(trained.model, tmp_path / "model.safetensors")
    (tmp_path / "nights").mkdir()
    (tmp_path / "night").mkdir()
    for number, sound in enumerate(sorted((trained.store / "audio").rglob("*.wav"))[:6]):
        shutil.copy(sound, tmp_path / f"nights/B{number % 2}_2026112{number // 2}_0230.wav")
    return tmp_path


def night(place: Path, **variables: str) -> tuple[int, list[dict[str, object]]]:
    """The exit code of one night, and the objects in its log."""
    path = {"PATH": f"{place / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY / "src")}
    process = subprocess.run(
        ["bash", str(place / "nightly.sh")], env={**os.environ, **path, **variables}, check=False
    )
    lines = (place / "night.jsonl").read_text().splitlines()
    told = [json.loads(line) for line in lines if line != "rsync: one warning"]
    return process.returncode, told


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
@pytest.mark.slow
def test_two_nights_are_fetched_scored_ranked_and_sent(place: Path) -> None:
    code, told = night(place)
    assert code == 0
    assert [each["exit_code"] for each in told if each["kind"] == "end"] == [0, 0]
    (counts,) = (each for each in told if each["kind"] == "counts")
    assert counts["recordings"] == 6
    (sites,) = (each for each in told if each["kind"] == "sites")
    assert sum(sites["states"].values()) == 2
    (page,) = place.glob("worklist-????-??-??.html")
    assert f"-a\n{page.name}\n" in (place / "mail.arguments").read_text()
    assert f"counts: {counts['message'].splitlines()[0]}" in (place / "mail.text").read_text()

    (place / "nights/B0_20261123_0230.wav").write_text("cut off")
    code, told = night(place)
    assert code == 1
    (counts,) = (each for each in told if each["kind"] == "counts")
    assert (counts["recordings"], counts["decisions"]["failed"]) == (1, 1)
    assert "exit code 1" in (place / "mail.arguments").read_text()

    (place / "model.safetensors").unlink()
    code, told = night(place, RSYNC_CODE="23")
    assert code == 23
    assert [each["exit_code"] for each in told if each["kind"] == "end"] == [2]
    assert "worklist" not in (place / "mail.arguments").read_text()
    assert "error: " in (place / "mail.text").read_text()
