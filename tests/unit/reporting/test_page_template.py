import pytest
from jinja2 import UndefinedError

from leakdet.reporting.page_template import filled

CONTENT = {
    "title": "<b>", "kicker": "k", "sentences": [], "choices": [], "file": "a&b.csv", "rows": [],
    "table": {"columns": ["</script>"]},
}  # fmt: skip


def test_what_users_name_is_escaped_and_scripts_are_not() -> None:
    html = filled("review.html.j2", CONTENT)
    assert "<h1>&lt;b&gt;</h1>" in html
    assert "Save a&amp;b.csv" in html
    assert html.count("</script>") == 2
    assert '=> {\n  "use strict"' in html


def test_a_template_is_never_filled_in_part() -> None:
    with pytest.raises(UndefinedError, match="title"):
        filled("review.html.j2", {})
