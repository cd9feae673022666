"""What may be looked at: the folders that were named, the runs, and the server's own folder.

Nothing outside of them is read or listed, whatever a link or a name says.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from leakdet.acoustics.listing import is_audio_name, is_hidden
from leakdet.scoring.parts import FACTS
from leakdet.scoring.prediction import sidecar_path
from leakdet.serving.guard import RequestError
from leakdet.serving.workbench import MAX_RECORDINGS

PAGES = ("report.html", "tune.html", "comparison.html", "worklist.html")
SERVED = (".html", ".csv", ".png", ".json", ".geojson", ".txt", ".md", ".xlsx")
TABLES = (".csv", ".tsv", ".xlsx")
MOST_LISTED = 200
MOST_WALKED = 50_000  # names of a folder


@dataclass(frozen=True)
class Places:
    """The folders that were named at the start, the folder of runs, and the server's own."""

    folders: Sequence[Path]
    runs: Path
    own: Path

    @property
    def roots(self) -> list[Path]:
        """Below which pages are shown: runs, the server's own, and the named ones."""
        return [self.runs, self.own, *self.folders]

    def inside(self, path: Path) -> bool:
        """True if a path, its links followed, lies in one of the places."""
        real = Path(os.path.realpath(path))
        return any(real.is_relative_to(os.path.realpath(root)) for root in self.roots)

    def folder(self, number: int) -> Path:
        """One of the named folders. Raises `RequestError` where there is none of this number."""
        if not 0 <= number < len(self.folders):
            raise RequestError(
                404, f"there is no folder {number}; --folder DIR names {self._count()}."
            )
        return self.folders[number]

    def _count(self) -> str:
        return f"{len(self.folders)} of them" if self.folders else "none"

    def files(self, folder: Path) -> Iterator[Path]:
        """The files below a folder, in the order of names; folders behind links are left out."""
        for root, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if not is_hidden(name))
            for name in sorted(name for name in names if not is_hidden(name)):
                if (file := Path(root, name)).is_file() and self.inside(file):
                    yield file

    def sounds(self, number: int) -> list[Path]:
        """The sounds of a named folder, as many as the page takes."""
        sounds = (file for file in self._walked(self.folder(number)) if is_audio_name(file))
        return list(islice(sounds, MAX_RECORDINGS))

    def lists(self, number: int) -> list[Path]:
        """The tables that lie in a named folder itself, which may tell sites and times."""
        names = sorted(self.folder(number).iterdir())
        return [f for f in names if f.suffix.lower() in TABLES and f.is_file() and self.inside(f)]

    def _walked(self, folder: Path) -> Iterator[Path]:
        return islice(self.files(folder), MOST_WALKED) if folder.is_dir() else iter(())

    def pages(self) -> list[Path]:
        """Reports of runs and searches, and work lists, the newest first."""
        own = self._walked(self.own / "worklists")
        pages = [*self._run_pages(), *(page for page in own if page.name in PAGES)]
        newest = sorted(pages, key=lambda page: -page.stat().st_mtime)
        return newest[:MOST_LISTED]

    def _run_pages(self) -> Iterator[Path]:
        for depth in ("*", "*/*", "*/*/*"):
            for name in PAGES:
                pages = self.runs.glob(f"{depth}/{name}")
                yield from (p for p in pages if p.parent.name != "latest" and self.inside(p))

    def rows(self) -> list[Path]:
        """Files of rows of predict, and folders of parts, in the named folders and the runs."""
        listed = []
        for root in (*self.folders, self.runs):
            for file in self._walked(root):
                if file.name == FACTS:
                    listed.append(file.parent)
                elif file.suffix in (".csv", ".parquet") and sidecar_path(file).is_file():
                    listed.append(file)
        return listed[:MOST_LISTED]

    def address(self, page: Path) -> str:
        """Number of the place and the path in it, by which `page_at` has a page."""
        number = next(n for n, root in enumerate(self.roots) if page.is_relative_to(root))
        return f"{number}/{page.relative_to(self.roots[number]).as_posix()}"

    def name(self, page: Path) -> str:
        """The path of a page as people see it, from the name of its place on."""
        root = next(root for root in self.roots if page.is_relative_to(root))
        return str(page.relative_to(root.parent))

    def page_at(self, address: str) -> Path:
        """The file of an address. Raises `RequestError` where it is none to be shown."""
        number, _, name = address.partition("/")
        if number in map(str, range(len(self.roots))) and name:
            file = self.roots[int(number)] / name
            try:
                if file.suffix in SERVED and self.inside(file) and file.is_file():
                    return file
            except (OSError, ValueError):  # a name that no system has
                pass
        raise RequestError(404, "there is no such page among the runs and work lists.")
