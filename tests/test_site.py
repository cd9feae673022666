"""The site, `make docs`: builds without a warning, asks no other host, and leads to every page."""

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath

import pytest

import leakdet
from leakdet.__main__ import VERBS
from leakdet.cli.settings import DOORS, known_settings

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}

# what people ask, and the page that answers it
TASKS = {
    "what a flag means": "files#flags",
    "what a reason means": "verdicts#what-to-do-with-an-undecided-recording",
    "a ranked page": "start#4-night-after-night-which-site-first",
    "a work list": "worklist",
    "a page to drop recordings on": "how/serve",
    "any number of recordings": "parts",
    "URLs": "remote",
    "nightly runs": "nightly",
    "many machines": "scaling#workers-on-other-machines",
    "thresholds and cost": "how/threshold",
    "splits by group": "splits",
    "labels": "labels",
    "adding cases": "how/add",
    "learning from digs": "learning",
    "exporting": "export",
    "a network of one's own": "how/network",
    "sweeps on SLURM": "how/slurm",
    "W&B and MLflow": "how/trackers",
    "the dashboard": "how/dashboard",
    "resuming": "how/resume",
    "two stores": "how/two-stores",
    "HDF5 with h5py and pandas": "how/hdf5",
    "Windows": "how/windows",
    "pip install": "install",
    "a setting": "reference/settings",
    "a word": "glossary",
}


class Page(HTMLParser):
    """What a page loads, and where its text links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self._in_text = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in LOADED and given.get("rel") not in ("next", "prev", "index", "search", "author"):
            self.loads.append(given.get(LOADED[tag], ""))
        if "id" in given:
            self.ids.add(given["id"])
        self._in_text += tag == "article"
        if tag == "a" and self._in_text and "headerlink" not in given.get("class", ""):
            self.links.append(given.get("href", ""))

    def handle_endtag(self, tag: str) -> None:
        self._in_text -= tag == "article"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    command = [sys.executable, "-m", "sphinx", "-W", "-n", "--keep-going", "-q", "-b", "html"]
    process = subprocess.run(
        [*command, "-d", str(tmp_path / "cache"), str(DOCS), str(tmp_path / "site")],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(REPOSITORY / "src"), "PATH": ""},
    )
    assert process.returncode == 0, process.stderr
    return tmp_path / "site"


def test_the_site_is_whole_and_asks_no_other_host(site: Path) -> None:
    pages = {
        page.relative_to(site).as_posix(): Page(page.read_text(encoding="utf-8"))
        for page in site.rglob("*.html")
    }
    for name, page in pages.items():
        assert [load for load in page.loads if "//" in load] == [], name
        assert list(lost_links(name, pages, site)) == []
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        loads = re.findall(r"url\(['\"]?([^)]*)|@import\s+([^;]*)", text)
        foreign = [load for pair in loads for load in pair if re.match(r"\w+:|//", load)]
        assert [load for load in foreign if not load.startswith("data:")] == [], style
    for script in site.rglob("*.js"):
        text = script.read_text(encoding="utf-8")
        assert not re.search(r"(fetch|import|src\s*=)\s*\(?['\"`]https?://", text), script
    assert_reference(site)
    near = {"index.html"} | targets("index.html", pages)
    two_clicks = near.union(*(targets(page, pages) for page in near if page in pages))
    for task, target in TASKS.items():
        page, _, anchor = target.partition("#")
        assert f"{page}.html" in two_clicks, task
        assert not anchor or anchor in pages[f"{page}.html"].ids, task


def targets(name: str, pages: dict[str, Page]) -> set[str]:
    """The pages that the text of a page links to."""
    links = (link.partition("#")[0] for link in pages[name].links if "//" not in link)
    return {resolved(name, path) for path in links}


def lost_links(name: str, pages: dict[str, Page], site: Path) -> Iterator[str]:
    """Links from the text of a page that lead nowhere on the site."""
    for link in pages[name].links:
        path, _, anchor = link.partition("#")
        if "//" in link:
            continue
        target = resolved(name, path)
        if not (site / target).is_file() or (
            anchor and target in pages and anchor not in pages[target].ids
        ):
            yield f"{name} -> {link}"


def resolved(name: str, path: str) -> str:
    """The path on the site of a link from a page.

    >>> resolved("how/a.html", "../b.html"), resolved("a.html", "")
    ('b.html', 'a.html')
    """
    parts = list(PurePosixPath(name).parent.parts) if path else [name]
    for part in path.split("/") if path else []:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def assert_reference(site: Path) -> None:
    """Every verb, setting and public name has its entry."""
    text = {
        name: re.sub(r"<[^>]+>", "", (site / f"reference/{name}.html").read_text(encoding="utf-8"))
        for name in ("commands", "settings", "python")
    }
    for verb in VERBS:
        assert f"usage: leakdet {verb} " in text["commands"]
    for door in DOORS:
        for name in known_settings(door).settings:
            assert f"{name}=" in text["settings"], name
    for name in leakdet.__all__:
        assert f"leakdet.{name}" in text["python"]
    # with jaxtyping's shapes as they are written
    signature = "features(self, x: Float[Tensor, 'B 1 M C']) -> Float[Tensor, 'B F']"
    assert signature in html.unescape(text["python"])
