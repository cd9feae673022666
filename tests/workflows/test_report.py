"""report.html of a run as a reader meets it, in a real browser; metrics.json against its schema; two models compared."""

import json
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# Runs after the page's own script and posts what it saw: sound is decoded in real time, so no fixed wait would do.
PROBE = """
<script>
(async () => {
  const said = { errors: window.faults, audio: [], pictures: 0 };
  const form = document.getElementById("filters");
  const visible = () => [...document.getElementById("recordings").tBodies].filter((body) => !body.hidden);
  const set = (name, value) => {
    form.elements[name].value = value;
    form.dispatchEvent(new Event("input", { bubbles: true }));
  };
  said.first = visible().map((body) => body.dataset.outcome);
  set("split", "*");
  said.all = visible().length;
  document.querySelector("th[data-sort=score] button").click();
  said.rising = visible().map((body) => Number(body.dataset.score));
  document.querySelector("th[data-sort=score] button").click();
  said.falling = visible().map((body) => Number(body.dataset.score));
  said.aria = document.querySelector("th[data-sort=score]").getAttribute("aria-sort");
  set("outcome", "found");
  said.found = visible().map((body) => body.dataset.outcome);
  set("outcome", "");
  set("find", "SITE-0 .wav");
  said.sites = visible().map((body) => body.dataset.find);
  said.shown = document.getElementById("shown").value;
  for (const picture of document.querySelectorAll(".mel img")) {
    await picture.decode();
    said.pictures += picture.naturalWidth > 10;
  }
  for (const player of document.querySelectorAll("audio")) {
    player.muted = true;
    await player.play();
    player.pause();
    said.audio.push(player.duration);
  }
  said.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  return said;
})().catch((error) => ({ errors: [String(error)] }))
  .then((said) => fetch("ADDRESS", { method: "POST", mode: "no-cors", body: JSON.stringify(said) }));
</script>
"""


def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium is installed")
    return found


@contextmanager
def answers() -> Iterator[tuple[str, queue.Queue[dict[str, Any]]]]:
    """An address on this machine, and what is posted to it."""
    found: queue.Queue[dict[str, Any]] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", found
        server.shutdown()


def probed(page: Path, address: str) -> str:
    """The page with the probe at its end, which alone may speak to `address`."""
    html = page.read_text(encoding="utf-8")
    faults = (
        "<script>window.faults = []; window.onerror = (text) => window.faults.push(text);</script>"
    )
    for old, new in (
        ("<script>\n// Sorting", faults + "\n<script>\n// Sorting"),
        ("default-src 'none'", f"default-src 'none'; connect-src {address}"),
        ("</body>", PROBE.replace("ADDRESS", address) + "</body>"),
    ):
        assert html.count(old) == 1
        html = html.replace(old, new)
    return html


def opened(page: Path, folder: Path, width: int) -> tuple[dict[str, Any], str]:
    """What the probe says of the page, and what the browser wrote to its console."""
    program = browser()
    with answers() as (address, found), (folder / "stderr").open("wb") as stderr:
        (folder / "page.html").write_text(probed(page, address), encoding="utf-8")
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
                   f"--window-size={width},900", "--autoplay-policy=no-user-gesture-required", "--enable-logging=stderr",
                   "--remote-debugging-port=0", (folder / "page.html").as_uri()]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr) as running:
            try:
                said = found.get(timeout=120)
            finally:
                running.terminate()
    lines = (folder / "stderr").read_text(encoding="utf-8", errors="replace").splitlines()
    return said, "\n".join(line for line in lines if ":CONSOLE" in line)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_report_opens_sorts_filters_and_plays(trained, tmp_path: Path, width: int):
    said, console = opened(trained.folder / "report.html", tmp_path, width)
    assert (said["errors"], console) == ([], "")
    wrong = [outcome in ("missed", "alarm") for outcome in said["first"]]
    assert wrong == sorted(wrong, reverse=True)
    assert len(said["first"]) == 12  # the judged split alone
    assert said["all"] == 24
    assert said["rising"] == sorted(said["rising"])
    assert said["falling"] == said["rising"][::-1]
    assert said["aria"] == "descending"
    assert set(said["found"]) == {"found"}
    assert said["sites"]
    assert all("site-0" in text for text in said["sites"])
    assert said["shown"].startswith(f"{len(said['sites'])} of 24")
    assert said["pictures"] == len(said["audio"]) == 12
    assert all(1.0 < seconds < 3.0 for seconds in said["audio"])
    assert said["wide"] <= 0  # nothing sticks out sideways


def test_train_says_where_the_report_is(trained):
    assert "report.html" in trained.printed
    assert "verdict  " in trained.printed
    html = (trained.folder / "report.html").read_text(encoding="utf-8")
    table = json.loads((trained.folder / "metrics.json").read_text())["test"]["recording"]
    assert f"{table['tp']} of {table['positives']} leaks" in html
    assert f"AUROC {table['auroc']:.3f}" in html
    assert "val F1 of recordings" in html


def test_metrics_json_keeps_to_its_schema(trained, schema_errors: Any):
    content = json.loads((trained.folder / "metrics.json").read_text())
    assert schema_errors(content) == []
    assert content["group_by"] == ["site"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("test", "recording", "tp"), 1.5),
        (("test", "recording", "f1"), "0.9"),
        (("test", "recording", "intervals", "f1"), 0.5),
        (("test", "groups", "worst"), "site"),
        (("test", "curves", "roc"), [[0, "x"]]),
        (("decision_rule", "policy"), "best"),
        (("unknown",), 1),
    ],
)
def test_the_schema_refuses_what_is_wrong(
    trained, path: tuple[str, ...], value: object, schema_errors: Any
):
    content = json.loads((trained.folder / "metrics.json").read_text())
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert len(schema_errors(content)) == 1


def test_two_models_are_compared_on_the_same_recordings(
    trained, door, tmp_path: Path, schema_errors: Any
):
    last = trained.folder / "checkpoints" / "last.ckpt"
    done = door(
        "evaluate",
        trained.model,
        last,
        trained.store,
        "--split",
        "val",
        "--out",
        "both",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    comparison = json.loads((tmp_path / "both" / "comparison.json").read_text())
    assert (comparison["a"], comparison["b"], comparison["n"]) == (
        str(trained.model),
        str(last),
        12,
    )
    assert comparison["unit"] == "site"
    for index, name in enumerate("ab"):
        content = json.loads((tmp_path / "both" / name / "metrics.json").read_text())
        assert schema_errors(content) == []
        assert content["comparison"] == comparison
        for row in comparison["differences"]:
            assert row["ab"[index]] == content["val"]["recording"][row["metric"]]
        html = (tmp_path / "both" / name / "report.html").read_text(encoding="utf-8")
        assert comparison["sentence"].split(":")[0] in html
    assert comparison["sentence"] in done.stdout.replace("\n", " ")


def test_three_models_and_unknown_groups_are_refused(trained, door, tmp_path: Path):
    done = door("evaluate", *[trained.model] * 3, trained.store, cwd=tmp_path)
    assert (done.returncode, "one, or two" in done.stderr) == (2, True)
    done = door("evaluate", trained.model, trained.store, "--group-by", "moon", cwd=tmp_path)
    assert (done.returncode, "['material', 'sensor', 'site']" in done.stderr) == (2, True)


def test_a_predecessors_store_without_ids_audio_and_groups_has_a_report(
    door, tmp_path: Path, schema_errors: Any
):
    rng = np.random.default_rng(0)
    store = tmp_path / "old"
    store.mkdir()
    for name in ("TRAINING", "VALIDATION", "TESTING"):
        labels = np.arange(24) % 2
        mel = rng.normal(-60, 6, (24, 4, 2, 32, 1))
        mel[labels == 1, :, :, 12:20] += 9
        with h5py.File(store / f"{name}_DATASET.H5", "w") as file:
            file["segments_mel"], file["labels"] = mel.astype(np.float16), labels.astype(np.int16)
            file.attrs["labels_json"] = json.dumps(["NOLEAK", "LEAK"])
    done = door(
        "train", f"data.store={store}", "trainer.max_epochs=1", "logger=none", "hydra.run.dir=run",
        "trainer.enable_progress_bar=false", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "TESTING_DATASET#0" in html
    assert html.count('class="mel"') == 24
    assert "<audio" not in html
    assert "Nothing says that training and judging share no site" in html
    assert schema_errors(json.loads((tmp_path / "run" / "metrics.json").read_text())) == []
