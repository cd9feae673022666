"""The page to hear and tick recordings, also in a real browser: its ticks come back as a CSV."""

import csv
import io
import json
import re
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from tests.browsers import chromium

from leakdet.core.errors import InputError
from leakdet.reporting.recording_card import Cards
from leakdet.reporting.review_page import (
    ReviewPage,
    ReviewRow,
    check_unlabelled,
    render_review,
    write_review_page,
)

COLUMNS = ("path", "label", "leak_prob", "note")
NAMES = ("/in/a, b.wav", '/in/"loud" ü.wav', "/in/<b>&.wav", "/in/line\nbreak.wav", "/in/e.wav")


@pytest.fixture
def page(media) -> ReviewPage:
    rows, cards = [], Cards()
    for number, name in enumerate(NAMES):
        shown = {}
        if number < 2:
            shown = {"mel": media.mel(number), "duration_s": 5.0}
            shown["clip"] = media.clip(number, 0.0, 1.0)
        values = {"path": name, "leak_prob": "0.5", "note": "</script><script>alert(1)"}
        shown |= {"facts": {"seconds": "5.0", "flags": ""}}
        prob = np.linspace(0, 1, 9 * number)
        card = cards.card(Path(name).name, 0.5, why="why", window_prob=prob, **shown)
        rows.append(ReviewRow(card, values))
    return ReviewPage("5 recordings", "a test", ["One."], "rows.csv", COLUMNS, rows)


def expected(page: ReviewPage, labels: dict[int, str]) -> str:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, page.columns, restval="")
    writer.writeheader()
    for number, row in enumerate(page.rows):
        writer.writerow({**row.values, "label": labels.get(number, "")})
    return f"\ufeff{out.getvalue()}"


def test_the_page_asks_nothing_of_any_network(page: ReviewPage) -> None:
    html = render_review(page)
    links = re.findall(r'(?:src|href|srcset|action)="([^"]*)"', html)
    assert len(links) >= 4
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "default-src 'none'" in html


def test_what_users_name_is_text_and_no_markup(page: ReviewPage) -> None:
    html = render_review(page)
    assert html.count("<script") == 2
    assert "&lt;b&gt;&amp;.wav" in html
    table = json.loads(re.search(r'id="table">(.*)</script>', html)[1])
    assert [row[0] for row in table["rows"]] == list(NAMES)
    assert table["rows"][0][3].startswith("</script>")


def test_blank_facts_are_left_out_and_windows_counted(page: ReviewPage) -> None:
    html = render_review(page)
    assert html.count("<dt>seconds</dt>") == 5
    assert "<dt>flags</dt>" not in html
    assert "5 of 9 at or above" in html
    assert html.count("No sound:") == 3


def test_other_rows_have_ticks_of_their_own(page: ReviewPage) -> None:
    keys = [re.search(r'"key": "(.*?)"', render_review(page))[1]]
    fewer = ReviewPage("5", "b", [], "rows.csv", COLUMNS, page.rows[:4])
    keys.append(re.search(r'"key": "(.*?)"', render_review(fewer))[1])
    assert keys[0] != keys[1]
    assert all(key.startswith("leakdet ") for key in keys)


# Ticks by keys and clicks, loads the page again, and saves what is ticked there.
PROBE = """
<script>
const key = (name) => document.dispatchEvent(new KeyboardEvent("keydown", { key: name }));
const fits = document.documentElement.scrollWidth <= document.documentElement.clientWidth;
if (location.hash === "#again") {
  if (fits && document.querySelector("#count").value.startsWith("5 of 5")) key("s");
} else {
  for (const name of ["j", "l", "j", "n", "j", "d", "j", "u", "j", "l", "l", "k"]) key(name);
  document.querySelector("#row-1 input[value=leak]").click();
  document.querySelector("#row-4 input[value=no_leak]").click();
  document.querySelector("#row-4 input[value=dry_hole]").click();
  location.hash = "#again";
  location.reload();
}
</script>
"""


def downloaded(page: Path, folder: Path) -> str:
    """The CSV that the page saves in a browser."""
    browser = chromium()
    settings = folder / "profile" / "Default" / "Preferences"
    settings.parent.mkdir(parents=True)
    place = {"default_directory": str(folder), "prompt_for_download": False}
    settings.write_text(json.dumps({"download": place}))
    # with a debugging port it stays open
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    command += ["--window-size=800,900", f"--user-data-dir={folder / 'profile'}", page.as_uri()]
    saved, until = folder / "rows.csv", time.monotonic() + 120
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        while not saved.exists() and time.monotonic() < until:
            time.sleep(0.05)
        run.terminate()
    return saved.read_bytes().decode("utf-8")


def test_ticks_survive_a_reload_and_are_saved_as_the_table(
    page: ReviewPage, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    write_review_page(file, page)
    file.write_text(file.read_text("utf-8").replace("</body>", f"{PROBE}</body>"), "utf-8")
    labels = {0: "leak", 1: "leak", 2: "dry_hole", 4: "dry_hole"}  # row 3 is "not sure"
    assert downloaded(file, tmp_path) == expected(page, labels)


def test_a_table_of_its_own_without_labels_may_be_replaced(tmp_path: Path) -> None:
    table = tmp_path / "confirm.csv"
    check_unlabelled(table, "worklist")
    table.write_text("path,label,why_suggested\na.wav,,near\n")
    check_unlabelled(table, "worklist")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("path,label,why_suggested\na.wav,leak,near\nb.wav,,x\n", "1 of its 2 labels"),
        ("path,label\na.wav,\n", "worklist would replace it"),
    ],
)
def test_labels_and_what_others_wrote_are_kept(tmp_path: Path, text: str, reason: str) -> None:
    table = tmp_path / "confirm.csv"
    table.write_text(text)
    with pytest.raises(InputError, match=reason):
        check_unlabelled(table, "worklist")
