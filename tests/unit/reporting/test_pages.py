import pytest
from jinja2 import UndefinedError

from leakdet.reporting.pages import (
    counted,
    filled,
    flattened,
    number,
    number_range,
    percent,
    percent_range,
)

CONTENT = {
    "title": "<b>", "kicker": "k", "sentences": [], "choices": [], "file": "a&b.csv", "cards": [],
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


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "n/a"),
        (0.0, "0 %"),
        (0.004, "0.4 %"),
        (0.5, "50 %"),
        (0.996, "99.6 %"),
        (1.0, "100 %"),
    ],
)
def test_a_percentage_says_0_or_100_only_where_that_is_exact(share, text):
    assert percent(share).replace("\u00a0", " ") == text


def test_ranges_and_numbers():
    assert percent_range([0.78, 0.931]).replace("\u00a0", " ") == "78 to 93 %"
    assert percent_range(None) == number_range(None) == ""
    assert number_range([0.0, 1.0]) == "0.00 to 1.00"
    assert (number(None), number(0.12345)) == ("n/a", "0.123")


def test_thousands_are_parted_and_nouns_agree():
    assert counted(1, "leak") == "1 leak"
    assert counted(12_345, "recording") == "12\u202f345 recordings"


def test_nested_settings_become_dotted_names():
    nested = {"data": {"store": None, "empty": {}}, "seed": 1}
    assert flattened(nested) == [("data.store", "none"), ("data.empty", "{}"), ("seed", "1")]
