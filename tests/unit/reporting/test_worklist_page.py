import csv
import html
import json
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.browsers import chromium

from leakdet.reporting.recording_card import Cards
from leakdet.reporting.review_page import ReviewPage, ReviewRow
from leakdet.reporting.worklist_page import (
    ADVICE,
    BEGINNING,
    COLUMNS,
    CREATED_BY,
    GENERATOR,
    WIDTH,
    WorklistPage,
    advice,
    coordinates,
    is_worklist,
    list_parts,
    model_verdict,
    render_worklist,
    site_map,
    table_row,
    trend_text,
    write_geojson,
    write_worklist_page,
    write_worklist_table,
)
from leakdet.sites.states import LISTS, WorklistRow
from leakdet.tables.read import read_table


@pytest.fixture
def row(worklist_rows):
    return worklist_rows(1)[0]


def at(row, *places):
    return [replace(row, lat=lat, lon=lon) for lat, lon in places]


def test_distances_are_true_in_both_directions(row) -> None:
    # 1 km east and 1 km north of a place at 60 degrees, where a degree of longitude is half as long
    km = 1 / 111.195
    chart = site_map(at(row, (60.0, 10.0), (60.0, 10.0 + 2 * km), (60.0 + km, 10.0)))
    assert chart is not None
    (x0, y0), (x1, y1), (x2, y2) = (point for point in chart.points if point)
    east, north = x1 - x0, y0 - y2
    assert (y1, x2) == (y0, x0)
    assert east > 0
    assert north == pytest.approx(east, rel=0.01)
    assert chart.scale_text == "200 m"
    assert chart.scale_length == pytest.approx(east / 5, abs=0.1)


def test_every_site_is_inside_and_drawn_once(worklist_rows) -> None:
    rows = worklist_rows(300)
    chart = site_map(rows)
    assert chart is not None
    assert all(0 < x < WIDTH and 0 < y < chart.height for x, y in (p for p in chart.points if p))
    assert sum(marks.count for marks in chart.marks) == 300
    for marks in chart.marks:
        assert len(re.findall(r"M[\d.]+ ", marks.path)) == marks.count
        assert marks.count == sum(row.state == marks.state for row in rows)


def test_one_place_alone_is_in_the_middle(row) -> None:
    chart = site_map(at(row, (52.0, 13.0), (52.0, 13.0)))
    assert chart is not None
    assert chart.points == [(WIDTH / 2, chart.height / 2)] * 2
    assert [number.text for number in chart.numbers] == ["1"]  # not one text upon the other


def test_a_network_on_both_sides_of_longitude_180_stays_in_one_piece(row) -> None:
    chart = site_map(at(row, (-17.0, 179.9), (-17.0, -179.9)))
    assert chart is not None
    assert chart.scale_text == "5 km"  # of 21 km


def test_a_site_without_a_place_is_left_out(row) -> None:
    nowhere = replace(row, lat=None, lon=None)
    assert coordinates(nowhere) is None
    assert site_map([nowhere]) is None
    chart = site_map([nowhere, *at(row, (52.0, 13.0))])
    assert chart is not None
    assert (chart.without, chart.points[0]) == (1, None)


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))


def test_a_row_per_site_in_order_of_rank(worklist_rows, tmp_path: Path) -> None:
    rows = worklist_rows(30)
    write_worklist_table(tmp_path / "list.csv", rows)
    found = read(tmp_path / "list.csv")
    assert list(found[0]) == [*COLUMNS, "logger", "pipe"]
    assert [row["rank"] for row in found] == [str(rank) for rank in range(1, 31)]
    assert [row["site"] for row in found] == [row.site for row in rows]
    assert found[0]["since"] == "2026-11-28"
    assert found[0]["score"] == f"{rows[0].score:.4g}"
    write_worklist_table(tmp_path / "list.xlsx", rows)
    table = read_table(tmp_path / "list.xlsx")
    names = ("rank", "site", "state", "why", "nights", "since", "list", "score")
    for (_, row), other in zip(table.rows, found, strict=True):
        assert [row[name] for name in names] == [other[name] for name in names]
    assert is_worklist(tmp_path / "list.xlsx", BEGINNING)
    assert found[5]["score"] == found[5]["worth"] == ""  # a silent logger
    assert found[5]["health"] == "missing for 4 nights"
    assert found[0]["latest_recorded_at"] == "2026-11-30T03:00:00"


def test_columns_of_its_own_name_are_not_overwritten(worklist_rows) -> None:
    row = replace(worklist_rows(1)[0], columns={"state": "Berlin", "pipe": "PE"})
    values = table_row(1, row)
    assert (values["state"], values["pipe"]) == ("new", "PE")


def test_a_site_without_recordings_has_a_row(worklist_rows, tmp_path: Path) -> None:
    row = replace(worklist_rows(1)[0], recordings=(), columns={})
    write_worklist_table(tmp_path / "list.csv", [row])
    assert read(tmp_path / "list.csv")[0]["latest_recording"] == ""


def test_points_have_longitude_first_and_unknown_is_null(worklist_rows, tmp_path: Path) -> None:
    rows = worklist_rows(8)
    rows[2] = replace(rows[2], lat=None)
    rows[3] = replace(rows[3], lon=None)
    path = tmp_path / "list.geojson"
    assert write_geojson(path, rows) == 6
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["type"] == "FeatureCollection"
    first, silent = content["features"][0], content["features"][3]
    assert first["geometry"] == {"type": "Point", "coordinates": [rows[0].lon, rows[0].lat]}
    assert first["properties"]["rank"] == 1
    assert silent["properties"]["rank"] == 6
    assert silent["properties"]["score"] is None


def test_its_own_files_are_known_again(worklist_rows, tmp_path: Path) -> None:
    write_worklist_table(tmp_path / "a.csv", worklist_rows(2))
    write_geojson(tmp_path / "a.geojson", worklist_rows(2))
    (tmp_path / "other.csv").write_text("rank,site\n1,a\n")
    assert is_worklist(tmp_path / "a.csv", BEGINNING)
    assert is_worklist(tmp_path / "a.geojson", CREATED_BY)
    assert not is_worklist(tmp_path / "other.csv", BEGINNING)


NAMED = "<b>&'</script>"
MakePage = Callable[..., WorklistPage]


@pytest.fixture
def page(media) -> MakePage:
    def make(rows: Sequence[WorklistRow], heard: int = 2) -> WorklistPage:
        shown = []
        for number, row in enumerate(rows[:heard]):
            card = Cards().card(
                row.site,
                0.5,
                why="why",
                mel=media.mel(number),
                duration_s=5.0,
                clip=media.clip(number, 0.0, 1.0),
            )
            shown.append(ReviewRow(card, {"path": f"/in/{row.site}.wav", "label": ""}))
        nights = [date(2026, 11, 1) + timedelta(night) for night in range(len(rows[0].trend))]
        return WorklistPage(
            "A work list", "model abc", model_verdict(None), ["One."], ["Too small."],
            list_parts(rows), "3 of its last 4 judged nights", rows, nights, 0.5,
            {"rule": "3 of 4"}, ["list.csv"],
            ReviewPage("", "", [], "list.confirm.csv", ("path", "label"), shown),
            {row.site: number for number, row in enumerate(rows[:heard])},
        )  # fmt: skip

    return make


def sites_in(text: str) -> dict[str, Any]:
    found = re.search(r'id="worklist">(.*)</script>', text)
    assert found
    content = json.loads(found[1])
    assert isinstance(content, dict)
    return content


def test_the_page_asks_nothing_of_any_network(page: MakePage, worklist_rows) -> None:
    text = render_worklist(page(worklist_rows(60)))
    links = re.findall(r'(?:src|href|srcset|action)="([^"]*)"', text)
    assert len(links) >= 8
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "default-src 'none'" in text
    assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg|http-equiv", "", text)


def test_the_page_is_known_again_as_its_own(page: MakePage, worklist_rows, tmp_path: Path) -> None:
    write_worklist_page(tmp_path / "list.html", page(worklist_rows(3)))
    assert is_worklist(tmp_path / "list.html", f'content="{GENERATOR}"')


def test_what_users_name_is_text_and_no_markup(page: MakePage, worklist_rows) -> None:
    row = replace(
        worklist_rows(1)[0], site=NAMED, why=NAMED, health=(NAMED,), columns={NAMED: NAMED}
    )
    text = render_worklist(page([row]))
    assert NAMED not in text
    assert text.count("<script") == 4
    content = sites_in(text)
    values = dict(zip(content["fields"], content["rows"][0], strict=True))
    assert (values["site"], values["health"]) == (NAMED, [NAMED])
    assert html.escape(NAMED, quote=False) in text.replace("&#39;", "'")


def test_every_site_is_in_the_json_and_few_in_the_document(page: MakePage, worklist_rows) -> None:
    text = render_worklist(page(worklist_rows(2000)))
    assert len(sites_in(text)["rows"]) == 2000
    assert text.count("<tr>") < 20
    assert len(text) < 1_500_000


def test_columns_that_nothing_fills_are_left_out(page: MakePage, worklist_rows) -> None:
    bare = [
        replace(row, level_dbfs=None, chance=None, worth=None, leak_share=None)
        for row in worklist_rows(5, nights=1, placed=False)
    ]
    text = render_worklist(page(bare, heard=0))
    assert "differ even at the first site of a list" in render_worklist(page(worklist_rows(5)))
    assert "differ even at the first" not in text
    for name in ("level", "worth", "share"):
        assert f'data-sort="{name}"' not in text
        assert f'data-sort="{name}"' in render_worklist(page(worklist_rows(5)))
    assert 'id="map"' not in text
    assert "Listen and tick" not in text
    assert "review" not in text.split("</style>")[1].split("<script")[0]


def test_trends_keep_their_order_and_gaps() -> None:
    assert trend_text([0.0, 1.0, None, 0.25, 0.75]) == "0z-Fk"
    assert trend_text([]) == ""


PROBE = """
<pre id="seen"></pre>
<script>
const seen = {};
const form = document.getElementById("filters");
const column = (name) => [...document.querySelectorAll(`#sites [data-cell=${name}]`)].map((cell) => cell.textContent);
const set = (values) => {
  form.reset();
  for (const [name, value] of Object.entries(values)) form.elements[name].value = value;
  form.dispatchEvent(new Event("input"));
};
// the window of a headless browser is never narrower than 500 pixels
if (innerWidth < 600) document.body.style.maxWidth = "358px";
try {
  seen.first = column("site");
  seen.cells = document.querySelector("#sites tbody tr:not(.list)").innerText;
  seen.lists = [...document.querySelectorAll("#sites .list")].map((row) => row.innerText.split(":")[0]);
  seen.cut = [...document.querySelectorAll("#sites th[scope=row]")].filter((cell) => cell.scrollWidth > cell.clientWidth).length;
  const box0 = document.querySelector("#sites").parentElement;
  seen.tableWide = box0.scrollWidth - box0.clientWidth;
  seen.outside = [...document.querySelectorAll("#sites tbody td")].filter((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return Math.max(cell.getBoundingClientRect().right, range.getBoundingClientRect().right)
      > cell.parentElement.getBoundingClientRect().right + 1;
  }).map((cell) => cell.innerText);
  seen.shown = document.getElementById("shown").value;
  seen.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  document.getElementById("more").click();
  seen.more = column("site").length;
  set({ state: "broken" });
  seen.broken = column("state");
  seen.onMap = document.querySelector("#map .broken").getAttribute("d").split("M").length - 1;
  seen.newOnMap = document.querySelector("#map .new").getAttribute("d");
  document.querySelector("[data-list=backlog]").click();
  seen.backlog = column("state");
  set({ find: "S00017 PE" });
  seen.found = column("site");
  set({ logger: "clipped" });
  seen.clipped = column("health");
  set({});
  document.querySelector("th[data-sort=score] button").click();
  seen.falling = column("score");
  seen.aria = document.querySelector("th[data-sort=score]").getAttribute("aria-sort");
  document.querySelector("th[data-sort=score] button").click();
  seen.rising = column("score");
  set({});
  document.querySelector("[data-logger=unreadable]").click();
  seen.unreadable = column("state");
  const map = document.getElementById("map");
  set({});
  const box = map.getBoundingClientRect();
  map.dispatchEvent(new MouseEvent("click", { clientX: box.left + 5, clientY: box.top + 5 }));
  seen.chosen = document.getElementById("chosen-site").textContent;
  form.elements.find.dispatchEvent(new KeyboardEvent("keydown", { key: "l", bubbles: true }));
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "j" }));
  form.elements.find.dispatchEvent(new KeyboardEvent("keydown", { key: "l", bubbles: true }));
  seen.typed = document.getElementById("count").value;
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "l" }));
  seen.ticked = document.getElementById("count").value;
  seen.listen = [...document.querySelectorAll("#sites a:not([hidden])")].map((link) => link.hash);
} catch (error) {
  seen.error = String(error);
}
document.getElementById("seen").textContent = JSON.stringify(seen);
</script>
"""


def in_browser(file: Path, size: str = "390,844") -> dict[str, Any]:
    """What the probe saw in a browser whose window has this size."""
    browser = chromium()
    file.write_text(file.read_text("utf-8").replace("</body>", f"{PROBE}</body>"), "utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={size}"]
    command += [f"--user-data-dir={file.parent / 'profile'}", "--dump-dom", file.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    found = re.search(r'<pre id="seen">(.*?)</pre>', dom, re.S)
    assert found
    seen = json.loads(html.unescape(found[1]))
    assert isinstance(seen, dict)
    return seen


def test_sites_are_found_sorted_and_shown_on_the_map(
    page: MakePage, worklist_rows, tmp_path: Path
) -> None:
    rows = [replace(row, worth=None, chance=0.043) for row in worklist_rows(1000)]
    rows.sort(key=lambda row: LISTS.index(row.list_name))
    file = tmp_path / "list.html"
    write_worklist_page(file, page(rows))
    seen = in_browser(file)
    assert "error" not in seen
    assert seen["lists"] == ["News", "Backlog", "Other"]
    assert seen["backlog"] == ["persistent"] * sum(row.list_name == "backlog" for row in rows)
    assert seen["first"] == [row.site for row in rows[:50]]
    assert "since 2026-11-28" in seen["cells"]
    assert "3 of 30" in seen["cells"]
    assert seen["shown"] == "50 of 1000 shown"
    assert seen["wide"] <= 0
    assert seen["outside"] == []
    assert seen["more"] == 250
    broken = [row for row in rows if row.state == "broken"]
    assert seen["broken"] == ["broken"] * len(broken)
    assert (seen["onMap"], seen["newOnMap"]) == (len(broken), "")
    assert seen["found"] == ["S00017"]
    clipped = sum("clipped" in row.health for row in rows)
    assert seen["clipped"] == ["logger: clipped"] * min(clipped, 50)
    known = (row.ranking_score for row in rows if row.ranking_score is not None)
    score = sorted(known, reverse=True)
    assert [float(text) for text in seen["falling"]] == pytest.approx(score[:50], abs=0.006)
    assert seen["aria"] == "descending"
    assert [float(text) for text in seen["rising"]] == pytest.approx(score[:-51:-1], abs=0.006)
    assert seen["unreadable"] == ["broken"] * len(broken)
    assert re.match(r"S\d{5}: rank \d+, ", seen["chosen"])
    assert (seen["typed"], seen["ticked"]) == ("0 of 2 ticked", "1 of 2 ticked: 1 leak")
    assert seen["listen"] == ["#row-0", "#row-1"]


def test_long_names_and_all_columns_fit_at_1280(
    page: MakePage, worklist_rows, tmp_path: Path
) -> None:
    rows = [replace(row, site="Mühlenstraße Westende") for row in worklist_rows(40)]
    file = tmp_path / "list.html"
    write_worklist_page(file, page(rows))
    seen = in_browser(file, "1280,900")
    assert (seen["wide"], seen["tableWide"], seen["cut"]) == (0, 0, 0)


def test_the_verdict_on_the_model_stands_first(page: MakePage, worklist_rows) -> None:
    shown = page(worklist_rows(3))
    bad = {"grade": "bad", "label": "Do not rely on it", "sentence": "Luck.", "split": "test"}
    for verdict, grade in (
        (model_verdict({"verdict": bad}), "bad"),
        (model_verdict({}), "unknown"),
        (model_verdict(None), "unknown"),
    ):
        text = render_worklist(replace(shown, verdict=verdict))
        box = text.index(f'<div class="verdict {grade}">')
        assert box < text.index(verdict.label) < text.index(ADVICE[grade]) < text.index("<h1>")
    made_up = {**bad, "grade": "good", "sentence": "These recordings are synthetic."}
    assert "real pipes" in advice(model_verdict({"verdict": made_up}))


def test_ranks_run_on_from_list_to_list(worklist_rows) -> None:
    rows = worklist_rows(4)
    named = [
        replace(row, list_name=name)
        for row, name in zip(rows, ("news", "news", "other", "other"), strict=True)
    ]
    found = [(part.name, part.sites, part.ranks) for part in list_parts(named)]
    assert found == [
        ("news", 2, ", ranks 1 to 2"),
        ("backlog", 0, ""),
        ("other", 2, ", ranks 3 to 4"),
    ]
