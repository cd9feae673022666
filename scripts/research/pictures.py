"""Draw the pictures of README and docs in headless Chromium: a report, a work list, a terminal.

    PYTHONPATH=scripts python scripts/research/pictures.py RUN

RUN is the folder of a training on the demo, as `make train` leaves it. The nights of the work list
are made up (`synthetic_nights.py`) and named after the run's model.
"""

import html
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from leakdet.storage.model_card import file_hash
from leakdet.tables.write import write_csv
from synthetic_nights import Story, make_network, network_rows

DOCS = Path(__file__).parents[2] / "docs"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LARGEST_BYTES = 120_000
STORY = Story(sites=60, nights=14, bursts=2, growing=1, old=1, pumps=3, dying=2, rain=1)
STREETS = (
    "Mill Lane",
    "Station Road",
    "High Street",
    "Park Avenue",
    "Bridge Street",
    "Church Hill",
)
TERMINAL = """<meta charset="utf-8"><body style="margin:0;background:#111827;color:#e5e7eb">
<pre style="font:15px/1.5 'DejaVu Sans Mono',monospace;margin:1rem;white-space:pre-wrap">%s</pre>"""


def draw(page: Path, picture: Path, width: int, height: int) -> None:
    """Write the top of a page as a small PNG."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None or not page.is_file():
        sys.exit(f"needs {page} and one of {', '.join(BROWSERS)}")
    shot = page.parent / "shot.png"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command = [browser, *options, f"--window-size={width},{height}", f"--screenshot={shot}"]
    subprocess.run([*command, page.as_uri()], check=True, capture_output=True, timeout=60)
    with Image.open(shot) as image:
        image.convert("RGB").quantize(64).save(picture, optimize=True)
    shot.unlink()
    size = picture.stat().st_size
    if size > LARGEST_BYTES:
        sys.exit(f"{picture} has {size} bytes; at most {LARGEST_BYTES} are wanted")
    print(f"{picture}: {size} bytes")


def leakdet(*words: str, folder: Path) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "leakdet", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout or done.stderr


def nights(model: Path, table: Path) -> None:
    """Write the rows of a made-up network as this model's."""
    network = make_network(STORY, 1)
    rng = np.random.default_rng(0)
    place = np.round(rng.normal([52.5, 13.4], [0.012, 0.02], (STORY.sites, 2)), 5)
    rows = []
    for row in network_rows(network.scores, network.levels):
        site = int(row["site"][1:])
        name = f"{STREETS[site % len(STREETS)]} {3 + 2 * (site // len(STREETS))}"
        rows.append(
            {**row, "site": name, "lat": place[site, 0], "lon": place[site, 1]}
            | {"model": file_hash(model), "threshold": 0.5}
        )
    write_csv(table, rows)


def main() -> None:
    run = Path(sys.argv[1]).resolve()
    model = run / "model.safetensors"
    draw(run / "report.html", DOCS / "report.png", 1000, 620)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        nights(model, folder / "rows.csv")
        costs = ("--dig-cost", "2000", "--leak-cost", "60000")
        words = ("worklist", "rows.csv", "--model", str(model), *costs, "--top", "0")
        leakdet(*words, folder=folder)
        draw(folder / "worklist.html", DOCS / "worklist.png", 1200, 1150)

        other = ("demo.seed=7", "demo.sites=6", "demo.recordings_per_site=4")
        leakdet("build", "demo", "other", *other, folder=folder)
        (folder / "new").symlink_to(folder / "other/audio")
        (folder / "model.safetensors").symlink_to(model)
        text = ""
        for typed in (
            "predict model.safetensors new --out verdicts.csv --page verdicts.html",
            f"worklist rows.csv --model model.safetensors {' '.join(costs)}",
        ):
            text += f"$ leakdet {typed}\n{leakdet(*typed.split(), folder=folder)}\n"
        page = folder / "terminal.html"
        page.write_text(TERMINAL % html.escape(text), encoding="utf-8")
        draw(page, DOCS / "terminal.png", 1000, 700)


if __name__ == "__main__":
    main()
