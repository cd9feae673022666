"""A page to hear ranked recordings and to tick what they were; it saves the ticks as a CSV.

One file that asks nothing of any network. The CSV that it saves is the table of its rows, with the
column `label` filled in; it holds what `csv` would write, so that without a tick it equals the file
beside the page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from leakdet.core.errors import InputError
from leakdet.core.files import write_whole
from leakdet.reporting.pages import filled
from leakdet.reporting.recording_card import Card
from leakdet.tables.read import read_table
from leakdet.tables.schema import LABEL, WHY


@dataclass(frozen=True)
class Choice:
    """What a person can tick; `value` is the label that the CSV then has."""

    value: str
    name: str
    key: str
    meaning: str


CHOICES = (
    Choice("leak", "Leak", "l", "a leak, confirmed by a dig or by other evidence"),
    Choice("no_leak", "No leak", "n", "no leak, confirmed"),
    Choice("dry_hole", "Dry hole", "d", "dug, and no leak was there"),
    Choice("not_sure", "Not sure", "u", "heard, not confirmed: its label stays empty"),
)


@dataclass(frozen=True)
class ReviewRow:
    """A recording of the page, and its row of the CSV, in which `label` is blank."""

    card: Card
    values: Mapping[str, str]


@dataclass(frozen=True)
class ReviewPage:
    """The rows of a page in order, with the `columns` and the name of the CSV that it saves."""

    title: str
    kicker: str
    sentences: Sequence[str]
    file: str
    columns: Sequence[str]
    rows: Sequence[ReviewRow]


def write_review_page(path: Path, page: ReviewPage) -> None:
    """Write the page atomically."""
    # File names may hold bytes that are no UTF-8.
    write_whole(path, render_review(page), errors="backslashreplace")


def render_review(page: ReviewPage) -> str:
    """The page as text."""
    head = {"title": page.title, "kicker": page.kicker, "sentences": page.sentences}
    return filled("review.html.j2", {**head, **review_content(page)})


def review_content(page: ReviewPage) -> dict[str, Any]:
    """What `review_rows.html.j2` shows; ticks are kept in the browser under a key of the rows."""
    values = [[row.values.get(column, "") for column in page.columns] for row in page.rows]
    key = sha256(repr((page.columns, values)).encode(errors="surrogateescape")).hexdigest()
    return {
        "choices": CHOICES,
        "file": page.file,
        "cards": [row.card for row in page.rows],
        "table": {
            "key": f"leakdet {key[:16]}",
            "file": page.file,
            "columns": list(page.columns),
            "rows": values,
            "keys": {choice.key: choice.value for choice in CHOICES},
        },
    }


def check_unlabelled(table: Path, command: str) -> None:
    """Check that `command` may replace the table of recordings to confirm, if one is there."""
    if not table.exists():
        return
    content = read_table(table)
    if content.faults or (content.columns and not {LABEL, WHY} <= set(content.columns)):
        raise InputError(f"{table}: {command} would replace it, and did not write it. Rename it.")
    filled_in = sum(bool(row[LABEL]) for _, row in content.rows)
    if filled_in:
        raise InputError(
            f"{table}: {filled_in} of its {len(content.rows)} labels are filled in, and {command} "
            "would replace them. Rename it, or give another --out."
        )
