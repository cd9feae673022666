"""The page docs/results.md: its parts, each written by a script of its own, and their cells."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results.md"
PARTS = (
    "results",
    "foreign_sound",
    "paper",
    "learning",
    "incremental",
)  # in their order, each of scripts/PART.py


def write_part(name: str, text: str) -> Path:
    """Replace one part of the page and leave the others."""
    marks = re.split(r"<!-- (\w+) -->\n", PAGE.read_text(encoding="utf-8") if PAGE.exists() else "")
    parts = dict(zip(marks[1::2], marks[2::2], strict=True)) | {name: f"\n{text.strip()}\n\n"}
    page = "".join(f"<!-- {part} -->\n{parts[part]}" for part in PARTS if part in parts)
    PAGE.write_text(page.rstrip("\n") + "\n", encoding="utf-8")
    return PAGE


def table_row(*cells: object) -> str:
    return "|" + "|".join(f" {cell} " if cell != "" else " " for cell in cells) + "|"


def cell(row: Mapping[str, Any] | None) -> str:
    """A value with its interval."""
    if row is None or row["auroc"] is None:
        return "-"
    interval = row["interval"]
    return f"{row['auroc']:.2f}" + (f" ({interval[0]:.2f}–{interval[1]:.2f})" if interval else "")


def interval_cell(table: Mapping[str, Any], key: str) -> str:
    """A metric of a table of metrics.json, with its interval."""
    return cell({"auroc": table[key], "interval": table["intervals"][key]})
