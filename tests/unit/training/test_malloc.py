"""What a step frees is reused by the next one, unless the environment tunes malloc."""

import os
import subprocess
import sys

import pytest

STEPS = """
import resource
import numpy as np
from leakdet.training.malloc import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        for megabytes in (3, 100, 20):
            np.ones(megabytes << 20, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
plain = faults()
kept = keep_freed_memory()
faults()
print(int(kept), plain, faults())
"""


def run(**environment: str) -> tuple[bool, int, int]:
    """Whether freed memory is kept, and the page faults of the same steps before and after."""
    done = subprocess.run(
        [sys.executable, "-c", STEPS],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    kept, plain, faults = map(int, done.stdout.split())
    return bool(kept), plain, faults


def test_the_next_step_gets_the_memory_of_the_last_one() -> None:
    kept, plain, faults = run()
    if not kept:
        pytest.skip("the C library is not glibc")
    assert plain > 1000
    assert faults < plain / 10


def test_settings_of_malloc_in_the_environment_are_kept() -> None:
    kept, *_ = run(MALLOC_TRIM_THRESHOLD_="100000")
    assert not kept
