"""report.html in a real browser; metrics.json against its schema; the comparison of two models."""

import json
import queue
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
from tests.browsers import chromium

# Runs after the page's own script and posts its observations. Sound is decoded in real time, so no
# fixed wait would do.
PROBE = """
<script>
(async () => {
  const seen = { errors: window.errors, audio: [], pictures: 0 };
  const form = document.getElementById("filters");
  const bodies = document.getElementById("recordings").tBodies;
  const visible = () => [...bodies].filter((body) => !body.hidden);
  const set = (name, value) => {
    form.elements[name].value = value;
    form.dispatchEvent(new Event("input", { bubbles: true }));
  };
  seen.first = visible().map((body) => body.dataset.outcome);
  set("split", "*");
  seen.all = visible().length;
  seen.margins = visible().map((body) => Number(body.dataset.margin));
  document.querySelector("th[data-sort=score] button").click();
  seen.rising = visible().map((body) => Number(body.dataset.score));
  document.querySelector("th[data-sort=score] button").click();
  seen.falling = visible().map((body) => Number(body.dataset.score));
  seen.aria = document.querySelector("th[data-sort=score]").getAttribute("aria-sort");
  seen.outcomes = ["missed", "alarm", "found", "quiet"].map((outcome) => {
    set("outcome", outcome);
    const decided = [...bodies].filter((body) => !body.dataset.reason);
    const expected = decided.filter((body) => body.dataset.outcome === outcome).length;
    return [visible().length, expected];
  });
  seen.reasons = [...bodies].map((body) => body.dataset.reason).filter((reason) => reason);
  set("outcome", "doubt");
  seen.doubt = visible().map((body) => body.dataset.reason);
  set("outcome", "");
  set("find", "SITE-0 .wav");
  seen.sites = visible().map((body) => body.dataset.find);
  seen.shown = document.getElementById("shown").value;
  for (const picture of document.querySelectorAll(".mel img")) {
    await picture.decode();
    seen.pictures += picture.naturalWidth > 10;
  }
  for (const player of document.querySelectorAll("audio")) {
    player.muted = true;
    await player.play();
    player.pause();
    seen.audio.push(player.duration);
  }
  // Of two files with a recording's name, the one in the same folder is heard.
  const other = [...bodies].find((body) => !body.dataset.audio);
  const parts = other.dataset.recording.split("/");
  const chosen = new DataTransfer();
  for (const folder of ["elsewhere", parts.at(-2)]) {
    const file = new File([folder], parts.at(-1), { type: "audio/wav" });
    Object.defineProperty(file, "webkitRelativePath", { value: `calls/${folder}/${parts.at(-1)}` });
    chosen.items.add(file);
  }
  form.elements.folder.files = chosen.files;
  form.elements.folder.dispatchEvent(new Event("change", { bubbles: true }));
  const buttons = [...document.querySelectorAll(".listen button")];
  seen.offered = buttons.map((button) => button.closest("tbody").dataset.recording);
  seen.wanted = other.dataset.recording;
  buttons[0].click();
  seen.heard = await (await fetch(other.querySelector(".listen audio").src)).text();
  const numbers = document.querySelector(".wide:has(.numbers)");
  numbers.closest("details").open = true;
  seen.hidden = numbers.scrollWidth - numbers.clientWidth;
  seen.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  return seen;
})().catch((error) => ({ errors: [String(error)] }))
  .then((seen) => JSON.stringify(seen))
  .then((body) => fetch("ADDRESS", { method: "POST", mode: "no-cors", body }));
</script>
"""


@contextmanager
def listener() -> Iterator[tuple[str, queue.Queue[dict[str, Any]]]]:
    """Serve an address on this machine; yield it and a queue of what is posted to it."""
    posts: queue.Queue[dict[str, Any]] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posts.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", posts
        server.shutdown()


def probed(page: Path, address: str) -> str:
    """The page with the probe at its end, and allowed to send to `address`."""
    html = page.read_text(encoding="utf-8")
    errors = (
        "<script>window.errors = []; window.onerror = (text) => window.errors.push(text);</script>"
    )
    for old, new in (
        ("<script>\n// Sorting", errors + "\n<script>\n// Sorting"),
        ("default-src 'none'", f"default-src 'none'; connect-src {address} blob:"),
        ("</body>", PROBE.replace("ADDRESS", address) + "</body>"),
    ):
        assert html.count(old) == 1
        html = html.replace(old, new)
    return html


def opened(page: Path, folder: Path, width: int) -> tuple[dict[str, Any], str]:
    """Open the page; return the observations of the probe and the lines of the console."""
    program = chromium()
    with listener() as (address, posts), (folder / "stderr").open("wb") as stderr:
        (folder / "page.html").write_text(probed(page, address), encoding="utf-8")
        command = [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={folder / 'profile'}",
            f"--window-size={width},900",
            "--autoplay-policy=no-user-gesture-required",
            "--enable-logging=stderr",
            "--remote-debugging-port=0",
            (folder / "page.html").as_uri(),
        ]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr) as running:
            try:
                seen = posts.get(timeout=120)
            finally:
                running.terminate()
    lines = (folder / "stderr").read_text(encoding="utf-8", errors="replace").splitlines()
    return seen, "\n".join(line for line in lines if ":CONSOLE" in line)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_report_opens_sorts_filters_and_plays(trained, tmp_path: Path, width: int):
    seen, console = opened(trained.folder / "report.html", tmp_path, width)
    assert (seen["errors"], console) == ([], "")
    wrong = [outcome in ("missed", "alarm") for outcome in seen["first"]]
    assert wrong == sorted(wrong, reverse=True)
    assert len(seen["first"]) == 12  # of the judged split alone
    assert seen["all"] == 24
    assert seen["rising"] == sorted(seen["rising"])
    assert seen["falling"] == seen["rising"][::-1]
    assert seen["aria"] == "descending"
    assert all(shown == expected for shown, expected in seen["outcomes"])  # the decided ones
    assert seen["doubt"] == [reason for reason in seen["reasons"] if reason == "doubt"]
    assert 0 < len(seen["doubt"]) < 24
    assert seen["sites"]
    assert all("site-0" in text for text in seen["sites"])
    assert seen["shown"].startswith(f"{len(seen['sites'])} of 24")
    assert seen["pictures"] == len(seen["audio"]) == 12
    assert all(1.0 < seconds < 3.0 for seconds in seen["audio"])
    assert seen["offered"] == [seen["wanted"]]
    assert seen["heard"] == seen["wanted"].split("/")[-2]
    assert seen["hidden"] == 0  # of the table of all numbers
    assert seen["wide"] <= 0  # no sideways scrolling


def test_train_prints_the_verdict_and_the_report(trained):
    assert "report.html" in trained.printed
    assert "verdict  " in trained.printed
    html = (trained.folder / "report.html").read_text(encoding="utf-8")
    tables = json.loads((trained.folder / "metrics.json").read_text())["test"]
    table, coverage = tables["recording"], tables["coverage"]
    counts = f"Of {coverage['positives']} leaks {coverage['tp']} found, {coverage['fn']} missed"
    assert counts in html
    assert counts in trained.printed
    assert f"AUROC {table['auroc']:.3f}" in html
    assert "train loss" in html
    assert "val recordings" in html


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
def test_the_schema_refuses_wrong_content(
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
    options = ("--split", "val", "--out", "both")
    result = door("evaluate", trained.model, last, trained.store, *options, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    comparison = json.loads((tmp_path / "both" / "comparison.json").read_text())
    assert (comparison["a"], comparison["b"]) == (str(trained.model), str(last))
    assert comparison["n"] == 12
    assert comparison["unit"] == "site"
    for index, name in enumerate("ab"):
        content = json.loads((tmp_path / "both" / name / "metrics.json").read_text())
        assert schema_errors(content) == []
        assert content["comparison"] == comparison
        for row in comparison["differences"]:
            assert row["ab"[index]] == content["val"]["recording"][row["metric"]]
        html = (tmp_path / "both" / name / "report.html").read_text(encoding="utf-8")
        assert comparison["sentence"].split(":")[0] in html
    assert comparison["sentence"] in result.stdout.replace("\n", " ")
    assert comparison["names"] == ["model.safetensors", "checkpoints/last.ckpt"]
    page = (tmp_path / "both" / "report.html").read_text(encoding="utf-8")
    assert 'href="a/report.html"' in page
    again = door("evaluate", trained.model, last, trained.store, *options, cwd=tmp_path)
    assert again.returncode == 0, again.stderr  # which replaces the page


def test_three_models_and_unknown_groups_are_refused(trained, door, tmp_path: Path):
    result = door("evaluate", *[trained.model] * 3, trained.store, cwd=tmp_path)
    assert (result.returncode, "one, or two" in result.stderr) == (2, True)
    result = door("evaluate", trained.model, trained.store, "--group-by", "moon", cwd=tmp_path)
    assert (result.returncode, "it has material, sensor, site." in result.stderr) == (2, True)


def test_an_ailh_store_without_ids_audio_and_groups_has_a_report(
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
    result = door(
        "train", f"data.store={store}", "trainer.max_epochs=1", "logger=none", "hydra.run.dir=run",
        "trainer.enable_progress_bar=false", cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    html = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "TESTING_DATASET#0" in html
    assert html.count('class="mel"') == 24
    assert "<audio" not in html
    assert "may come from the same sites" in html
    assert schema_errors(json.loads((tmp_path / "run" / "metrics.json").read_text())) == []
