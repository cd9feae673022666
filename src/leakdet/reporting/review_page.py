"""A page to hear ranked recordings and to tick what they were; it saves the ticks as a CSV.

One file that asks nothing of any network. The CSV that it saves is the table of its rows, with the
column `label` filled in; it holds what `csv` would write, so that without a tick it equals the file
beside the page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from leakdet.core.files import write_whole
from leakdet.evaluation.scored_recordings import timeline_points
from leakdet.reporting.pages import filled
from leakdet.reporting.recording_card import RowMedia, timeline_paths


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
    """A recording of the page.

    `values` is its row of the CSV, in which `label` is blank. `facts` are shown, blank ones left
    out. `window_prob` are the leak probabilities of its windows in order, empty where unknown.
    """

    name: str
    values: Mapping[str, str]
    why: str
    facts: Mapping[str, str] = field(default_factory=dict)
    threshold: float = 0.5
    window_prob: Float[np.ndarray, " W"] = field(default_factory=lambda: np.empty(0))
    media: RowMedia = field(default_factory=lambda: RowMedia(""))


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
    told = {"title": page.title, "kicker": page.kicker, "sentences": page.sentences}
    return filled("review.html.j2", {**told, **review_content(page)})


def review_content(page: ReviewPage) -> dict[str, Any]:
    """What `review_rows.html.j2` shows; ticks are kept in the browser under a key of the rows."""
    values = [[row.values.get(column, "") for column in page.columns] for row in page.rows]
    key = sha256(repr((page.columns, values)).encode(errors="surrogateescape")).hexdigest()
    return {
        "choices": CHOICES,
        "file": page.file,
        "rows": [_drawn(row) for row in page.rows],
        "table": {
            "key": f"leakdet {key[:16]}",
            "file": page.file,
            "columns": list(page.columns),
            "rows": values,
            "keys": {choice.key: choice.value for choice in CHOICES},
        },
    }


def _drawn(row: ReviewRow) -> dict[str, Any]:
    timeline = timeline_points(row.window_prob)
    below, above = timeline_paths(timeline, row.threshold)
    return {
        "name": row.name,
        "why": row.why,
        "facts": row.facts,
        "threshold": row.threshold,
        "windows": len(row.window_prob),
        "leak_windows": int((row.window_prob >= row.threshold).sum()),
        "bars": len(timeline),
        "below": below,
        "above": above,
        "media": row.media,
    }
