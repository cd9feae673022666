"""Builds that are killed at random moments."""

import subprocess
import sys
from pathlib import Path

KILLING = """
import os, random, signal, sys, time
from pathlib import Path
from leakdet.config import BuildConfig, SplitConfig
from leakdet.building.builder import build_store
from leakdet.storage.integrity import check_contents
from leakdet.storage.store import SPLITS, open_leakdet_split

audio, folder = sys.argv[1], Path(sys.argv[2])

def build(out):
    child = os.fork()
    if child == 0:
        split = SplitConfig(ratios=[0.5, 0.25, 0.25])
        build_store(BuildConfig(source=audio, out=str(out), split=split))
        os._exit(0)
    return child

start = time.monotonic()
assert os.waitpid(build(folder / "timed"), 0)[1] == 0
build_s = time.monotonic() - start
rng = random.Random(0)
killed = 0
for number in range(10):
    out = folder / f"store{number}"
    child = build(out)
    time.sleep(build_s * rng.uniform(0.05, 1.0))
    os.kill(child, signal.SIGKILL)
    killed += os.waitpid(child, 0)[1] == signal.SIGKILL
    if out.exists():
        for name in SPLITS:
            check_contents(open_leakdet_split(out, name))
    else:
        assert os.waitpid(build(out), 0)[1] == 0
    assert sum(open_leakdet_split(out, name).recordings for name in SPLITS) == 30
left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
assert not left, left
print("killed", killed)
"""


def test_a_killed_build_leaves_no_store_and_can_be_run_again(
    thirty_recordings: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", KILLING, str(thirty_recordings), str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert int(process.stdout.split("killed")[1]) >= 5
