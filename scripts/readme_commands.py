"""Run every command and the Python of README as they stand there, cut short; for wheel_check.sh.

Usage: python readme_commands.py README.md FOLDER, with the Python that leakdet is installed for.
The folder gets small demo recordings where README has the reader's own.
"""

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pages import blocks, expanded, is_filled_in, make_folder

LEAKDET = Path(sys.executable).parent / "leakdet"
DEMO = ["demo.sites=9", "demo.recordings_per_site=4", "demo.duration_s=2.0"]
SHORT = {
    "train": ["trainer.max_epochs=1", "stop.passes=1", *DEMO],
    "crossval": ["trainer.max_epochs=1", "stop.passes=1", "crossval.folds=2"],
    "tune": ["trainer.max_epochs=1", "stop.passes=1", "tune.n_trials=2"],
}
LIMIT_S = 300


def commands(readme: str) -> list[list[str]]:
    """The words of every command in README's code, and in its text where no word is a placeholder."""
    found = [words for block in blocks(readme) if not block.reason for words in block.commands]
    text = re.sub(r"(?ms)^```.*?^```", "", readme)
    found += [shlex.split(code) for code in re.findall(r"`(leakdet [^`]+)`", text)]
    return [w[1:] for w in found if Path(w[0]).name == "leakdet" and is_filled_in(w[1:])]


def shortened(words: Sequence[str]) -> list[str]:
    """The command with less work, and on the CPU."""
    words = ["trainer=cpu" if word == "trainer=gpu" else word for word in words]
    if "--cfg" in words or words[0] not in SHORT:
        return words
    more = SHORT[words[0]]
    if any(word.startswith("resume=") for word in words):
        more = ["trainer.max_epochs=2", "stop.passes=2"]
    return [*words, *more]


def run(*command: str | Path) -> str:
    """Run a command as a person would. Raises `SystemExit` where it fails or shows a traceback."""
    started = time.monotonic()
    process = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    printed = process.stdout + process.stderr
    if process.returncode != 0 or "Traceback" in printed:
        sys.exit(f"{shlex.join(map(str, command))}\nended with {process.returncode}\n{printed}")
    return f"{time.monotonic() - started:5.1f} s"


def main() -> None:
    readme = Path(sys.argv[1]).read_text(encoding="utf-8")
    os.chdir(sys.argv[2])
    os.environ["XDG_CACHE_HOME"] = str(Path("cache").absolute())
    run(LEAKDET, "build", "source=demo", "out=demo", "verify=off", *DEMO)
    make_folder(Path(), Path("demo"))
    for words in commands(readme):
        arguments = expanded(shortened(words), Path())
        print(run(LEAKDET, *arguments), "leakdet", shlex.join(words), flush=True)
    for block in blocks(readme):
        if block.language != "python":
            continue
        code = block.text.replace(
            '"data.store=store"', '"data.store=store", "trainer.max_epochs=1"'
        )
        print(run(sys.executable, "-c", code), "the Python of README", flush=True)


if __name__ == "__main__":
    main()
