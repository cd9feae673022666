"""Fills the templates of pages; what users name (files, labels, groups) is escaped."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from leakdet.reporting.wording import counted, number, number_range, percent, percent_range


def filled(template: str, content: Mapping[str, Any]) -> str:
    """The page that a template of `page/` gives with this content."""
    page = Path(__file__).parent / "page"
    environment = Environment(
        loader=FileSystemLoader(page),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["include_raw"] = lambda name: (page / name).read_text(encoding="utf-8")
    texts = (counted, number, number_range, percent, percent_range)
    environment.filters |= {function.__name__: function for function in texts}
    return environment.get_template(template).render(content)
