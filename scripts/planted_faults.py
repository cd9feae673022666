"""Plants faults in a copy of the tree, one after the other, and looks which test catches them.

    python scripts/planted_faults.py                     # all
    python scripts/planted_faults.py rate_step --check-clean

A fault replaces a piece of code that stands once in the package, in whichever file. Some tests run
then; one of them must fail. Exits with 1 if none does, with 2 if the code is not there once. With
`--check-clean` the same tests must pass in an undamaged copy first.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NOT_COPIED = ".venv* .git .hypothesis .*_cache __pycache__ build dist outputs".split()
PASSED, FAILED = 0, 1  # exit codes of pytest
# a fault that cannot even be run is caught by any test
BROKEN = re.compile(r"(Import|ModuleNotFound|Syntax|Indentation|Name|Attribute)Error\b")


@dataclass(frozen=True)
class Fault:
    """A piece of code, the wrong one in its place, and the tests that should tell: pytest's words."""

    name: str
    code: str
    wrong: str
    tests: tuple[str, ...]  # folders that are not there are left out


FAULTS = (
    Fault(  # label smoothing raises the loss of what is right
        "loss_sign",
        "everywhere = -(log_prob * weights).mean(1)",
        "everywhere = (log_prob * weights).mean(1)",
        ("tests/unit/detection", "-k", "smooth"),
    ),
    Fault(  # a sound file that was cut is flagged only where more than half is missing
        "cut_unflagged",
        "layout.truncated = chunk.size - held >= max(1, bytes_per_frame)",
        "layout.truncated = chunk.size > 2 * held",
        ("tests/unit/acoustics", "-k", "cut or truncated"),
    ),
    Fault(  # what is written in place is half there while it is written
        "not_atomic",
        "partial.replace(path)",
        "path.write_bytes(partial.read_bytes())",
        ("tests/unit/storage", "tests/unit/core", "-k", "atomic or whole or disk"),
    ),
    Fault(  # of two copies of a sound with two labels, the first stays in the store
        "contradiction_kept",
        "self.writers[first_split].remove(first.recording_id)",
        "self.writers[first_split]",
        ("tests/unit/building", "-k", "contradict or duplicates"),
    ),
    Fault(  # all recordings weigh the same in training
        "weight_ignored",
        "self._weight_of_recording = torch.from_numpy(samples.weight_of_recording)",
        "self._weight_of_recording = torch.ones(samples.split.recordings)",
        ("tests/unit/loading", "-k", "samples_are_those or weight"),
    ),
    Fault(  # the first step of a warm-up changes nothing, and each later one is a step behind
        "rate_step",
        "return (1 + step) / (warmup + 1)",
        "return step / (warmup + 1)",
        ("tests/unit/training", "-k", "the_curve_is or its_floor"),
    ),
    Fault(  # recordings are drawn one by one, also those of a group, so that intervals are too narrow
        "interval_by_recording",
        "plan = resampling(len(scores), None if groups is None else groups[ranking.order])",
        "plan = resampling(len(scores), None)",
        ("tests/unit/evaluation", "-k", "interval"),
    ),
    Fault(  # every fifth recording trains in all folds, also where its group is held out
        "group_on_both_sides",
        "known[~held_out], known[held_out]",
        "known[~held_out | (np.arange(len(known)) % 5 == 0)], known[held_out]",
        ("tests/unit/crossvalidation", "tests/unit/storage", "-k", "its_group or whole_groups"),
    ),
    Fault(  # a threshold that was asked for, or fitted anew, is told but not used
        "stale_threshold",
        "return Detector(replace(loaded, rule=rule), model,",
        "return Detector(loaded, model,",
        ("tests/unit/scoring", "-k", "threshold or policy"),
    ),
    Fault(  # a part that was recorded before a kill, and never got its name, is not scored again
        "rows_lost_after_kill",
        "self.db.forget(number)",
        "self.db.hashes()",
        ("tests/unit/parts", "tests/unit/scoring", "-k", "kill_between or scored_again"),
    ),
)


def place_of(root: Path, fault: Fault) -> Path:
    """The file in which its code stands. Exits where that is not there exactly once."""
    files = sorted((root / "src" / "leakdet").rglob("*.py"))
    counts = {path: path.read_text(encoding="utf-8").count(fault.code) for path in files}
    places = [path for path, count in counts.items() for _ in range(count)]
    if len(places) != 1:
        print(f"{fault.name}: its code must stand once; found {len(places)} times")
        sys.exit(2)
    return places[0].relative_to(root)


def python(copy: Path, *words: str) -> tuple[int, str]:
    """Exit code and output of Python in the copy, with the package of the copy."""
    answer = subprocess.run(
        [sys.executable, *words],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.returncode, answer.stdout + answer.stderr


def tested(copy: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Exit code and output of pytest."""
    words = [word for word in tests if "/" not in word or (copy / word).exists()]
    return python(copy, "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider", *words)


def failure(output: str) -> str:
    """The test that failed; "" where none did, or where the code could not be run at all."""
    names = re.findall(r"^FAILED (\S+?::.+?)(?: - .*)?$", output, re.MULTILINE)
    reasons = re.findall(r"^E +(\S.*)$", output, re.MULTILINE)
    return names[0] if names and not BROKEN.match(" ".join(reasons[:1])) else ""


def caught(copy: Path, place: Path, fault: Fault) -> tuple[bool, str]:
    """Whether a test fails where the fault is planted, and which."""
    whole = (copy / place).read_text(encoding="utf-8")
    (copy / place).write_text(whole.replace(fault.code, fault.wrong), encoding="utf-8")
    code, output = tested(copy, fault.tests)
    (copy / place).write_text(whole, encoding="utf-8")
    test = failure(output) if code == FAILED else ""
    return bool(test), f"caught by {test}" if test else f"MISSED: {output}"


def clean(copy: Path, fault: Fault) -> tuple[bool, str]:
    """Whether the tests pass where no fault is planted."""
    code, output = tested(copy, fault.tests)
    last = (output.strip().splitlines() or [""])[-1]
    return code == PASSED, f"clean: {last}" if code == PASSED else f"NOT CLEAN: {output}"


def main() -> int:
    names = [fault.name for fault in FAULTS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help="the tree")
    parser.add_argument("--check-clean", action="store_true", help="run the tests without it too")
    arguments = parser.parse_args()
    if unknown := sorted({*arguments.names} - {*names}):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(names)}")
    root, failed = arguments.root.resolve(), 0
    faults = [fault for fault in FAULTS if not arguments.names or fault.name in arguments.names]
    places = [place_of(root, fault) for fault in faults]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve() / "tree"
        shutil.copytree(root, copy, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
        _, imported = python(copy, "-c", "import leakdet; print(leakdet.__file__)")
        if not Path(imported.strip()).is_relative_to(copy):
            print(f"not the copy is imported, but {imported}")
            return 2
        for fault, place in zip(faults, places, strict=True):
            start = time.monotonic()
            good, words = clean(copy, fault) if arguments.check_clean else (True, "")
            if good:
                good, found = caught(copy, place, fault)
                words = f"{words}; {found}" if words else found
            print(f"{fault.name} ({time.monotonic() - start:.0f} s): {words}", flush=True)
            failed += not good
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
