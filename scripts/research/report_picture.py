"""Draw README's picture, docs/report.png: the head of a report in headless Chromium.

Usage: python scripts/research/report_picture.py RUN, the folder of a training, as `make train` leaves it.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PICTURE = Path(__file__).parents[2] / "docs" / "report.png"
WIDTH, HEIGHT = 1000, 550
LARGEST_BYTES = 120_000


def main() -> None:
    report = Path(sys.argv[1]).resolve() / "report.html"
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None or not report.is_file():
        sys.exit(f"needs {report} and one of {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder) / "shot.png"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command = [browser, *options, f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={shot}"]
        subprocess.run([*command, report.as_uri()], check=True, capture_output=True, timeout=60)
        with Image.open(shot) as image:
            image.convert("RGB").quantize(64).save(PICTURE, optimize=True)
    size = PICTURE.stat().st_size
    if size > LARGEST_BYTES:
        sys.exit(f"{PICTURE} has {size} bytes; at most {LARGEST_BYTES} are wanted")
    print(f"{PICTURE}: {size} bytes")


if __name__ == "__main__":
    main()
