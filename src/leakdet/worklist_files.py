"""The files of a work list: which a name stands for, and whether each may be written."""

from dataclasses import dataclass
from pathlib import Path

from leakdet.errors import InputError
from leakdet.reporting.worklist_page import GENERATOR
from leakdet.reporting.worklist_tables import BEGINNING, CREATED_BY, is_worklist
from leakdet.review_media import check_unlabelled
from leakdet.scoring.output_file import check_output, is_regular

PAGE_BYTES = 25_000_000  # of 20,000 sites, with sounds
COMMAND = "leakdet worklist"


@dataclass(frozen=True)
class WorklistFiles:
    """Where the parts of a work list are written; None: not asked for."""

    page: Path | None
    table: Path | None
    points: Path | None
    confirm: Path | None

    @classmethod
    def named(cls, out: Path) -> "WorklistFiles":
        """A page and the tables beside it, or the one table whose ending the name has.

        Raises:
            InputError: it has another ending.
        """
        match out.suffix.lower():
            case ".html" | ".htm":
                beside = (out.with_suffix(end) for end in (".csv", ".geojson", ".confirm.csv"))
                return cls(out, *beside)
            case ".csv":
                return cls(None, out, None, None)
            case ".geojson":
                return cls(None, None, out, None)
        raise InputError(
            f"--out {out}: end the name with .html (a page, and beside it the tables), .csv or "
            ".geojson."
        )

    def check(self) -> None:
        """Check that all of them can be written, and that nothing else is replaced.

        Raises:
            InputError: names the file and the reason.
        """
        marks = (
            (self.page, f'content="{GENERATOR}"'),
            (self.table, BEGINNING),
            (self.points, CREATED_BY),
        )
        for path, mark in marks:
            if path is None:
                continue
            check_output(path, PAGE_BYTES)
            if not is_regular(path) or path.is_dir():
                raise InputError(f"--out {path}: name a file, no device and no folder.")
            if path.exists() and path.stat().st_size and not is_worklist(path, mark):
                raise InputError(
                    f"{path}: {COMMAND} would replace it, and did not write it; give another --out."
                )
        if self.confirm is not None:
            check_output(self.confirm)
            check_unlabelled(self.confirm, COMMAND)
