"""What the pages and README tell people to type: their blocks, and a folder to run them in."""

import csv
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>.*?) -->\n)?^```(?P<language>[\w{}-]*)[^\n]*\n(?P<text>.*?)^```$",
    flags=re.DOTALL | re.MULTILINE,
)
SHELL = ("", "sh", "bash")
# what no one types: what is printed, and the trees of Sphinx
UNTYPED = ("text", "{toctree}", "{include}")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `reason` says why no test runs it."""

    language: str
    text: str
    reason: str = ""

    @property
    def file_name(self) -> str:
        """`my_nets.py` of Python that begins with `# my_nets.py`; "": it is run as it is."""
        named = re.match(r"# (\w+\.py)\n", self.text)
        return named[1] if named else ""

    @property
    def commands(self) -> list[list[str]]:
        """The words of each line that a shell would run; none where it is no shell's."""
        if self.language not in SHELL:
            return []
        joined = self.text.replace("\\\n", " ")
        split = [shlex.split(line, comments=True) for line in joined.splitlines()]
        return [words for words in split if words]


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [
        Block(found["language"], found["text"], found["reason"] or "")
        for found in FENCE.finditer(page)
    ]


def is_filled_in(words: Sequence[str]) -> bool:
    """False for a command with a place for the reader's own, such as `STUDY` or `…`."""
    return not re.search(r"\b[A-Z]{3}|…", " ".join(words))


def expanded(words: Sequence[str], folder: Path) -> list[str]:
    """The words, with the paths below `folder` that a shell makes of a glob."""
    return [
        path
        for word in words
        for path in (
            sorted(str(p.relative_to(folder)) for p in folder.glob(word)) if "*" in word else [word]
        )
    ]


def make_folder(folder: Path, demo: Path, new: int = 2) -> None:
    """Fill a folder as a user's: `recordings/LABEL/`, `recordings.csv` and `new/`, linked to a demo.

    `demo` is a store that was built from the demo, `new` the number of files in the folder new.
    """
    with (demo / "manifest.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows):
        places = [Path("recordings", row["label"], f"{number}.wav"), Path(row["path"])]
        places += [Path("new", f"{number}.wav")] if number < new else []
        for place in places:
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).symlink_to((demo / row["path"]).absolute())
    (folder / "recordings.csv").symlink_to((demo / "manifest.csv").absolute())
