"""A real `leakdet serve` under load: its latency, eight clients at once, memory, and a kill in the middle.

PYTHONPATH=scripts python scripts/research/serve_load.py MODEL SOUND…
"""

import argparse
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import soundfile

import leakdet
from leakdet.serving.guard import Keys

TOKEN, PORT = "a-token-of-a-measurement", 8798
CLIENTS, FILES, ROUNDS = 8, 100, 40
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Host": f"127.0.0.1:{PORT}"}


@contextmanager
def server(model: Path, work: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server that answers."""
    command = [sys.executable, "-m", "leakdet", "serve", str(model), "--work", str(work)]
    command += ["--no-browser", "--port", str(PORT), "--device", "cpu", "--quiet"]
    with subprocess.Popen(command, env={**os.environ, "LEAKDET_TOKEN": TOKEN}) as process:
        try:
            for _ in range(600):
                try:
                    ask("GET", "/health")
                    break
                except OSError:
                    time.sleep(0.1)
            yield process
        finally:
            process.terminate()


def ask(method: str, path: str, body: bytes | None = None, **headers: str) -> Any:
    """The object of JSON that is answered."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
    try:
        connection.request(method, path, body, {**HEADERS, **headers})
        answer = connection.getresponse()
        content = json.loads(answer.read() or b"null")
        assert answer.status == 200, (answer.status, content)
        return content
    finally:
        connection.close()


def as_page(method: str, path: str, body: bytes | None = None) -> Any:
    """As the page asks, with its cookie."""
    keys = Keys.made(PORT, TOKEN)
    origin = {"Origin": f"http://127.0.0.1:{PORT}"} if body is not None else {}
    return ask(method, path, body, Cookie=f"{keys.cookie_name}={keys.cookie}", **origin)


def milliseconds(times: Sequence[float]) -> str:
    ordered = sorted(times)
    return f"median {1000 * statistics.median(ordered):.1f} ms, worst {1000 * ordered[-1]:.1f} ms"


def latency(model: Path, folder: Path) -> None:
    """One second of sound, over HTTP and by the API, in turn."""
    sound = folder / "second.wav"
    soundfile.write(sound, 0.1 * np.random.default_rng(0).standard_normal(16_000), 16_000)
    content, detector = sound.read_bytes(), leakdet.load_detector(model, device="cpu")
    over_http, by_api = [], []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        ask("POST", "/v1/predict", content)
        between = time.perf_counter()
        detector.predict(sound)
        over_http.append(between - start)
        by_api.append(time.perf_counter() - between)
    print(f"one second over HTTP: {milliseconds(over_http[1:])}")
    print(f"one second by the API: {milliseconds(by_api[1:])}")


def load(process: subprocess.Popen[bytes], sounds: Sequence[Path]) -> None:
    """Every client sends a hundred files; each is answered once."""
    contents = [sound.read_bytes() for sound in sounds]
    memory = psutil.Process(process.pid)

    def client(number: int) -> list[tuple[str, float]]:
        rows = []
        for turn in range(FILES):
            at = (number * FILES + turn) % len(contents)
            row = ask("POST", f"/v1/predict?name={number}-{turn}-{at}", contents[at])
            rows.append((row["path"], row["leak_prob"]))
        return rows

    before, start = memory.memory_info().rss, time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        rows = [row for of_client in pool.map(client, range(CLIENTS)) for row in of_client]
    seconds, after = time.perf_counter() - start, memory.memory_info().rss
    assert len({path for path, _ in rows}) == CLIENTS * FILES
    probs: dict[str, set[float]] = {}
    for path, prob in rows:
        probs.setdefault(path.rpartition("-")[2], set()).add(prob)
    print(f"{len(rows)} answers, each once, in {seconds:.1f} s; files with two scores: "
          f"{sum(len(found) > 1 for found in probs.values())}")  # fmt: skip
    print(f"memory {before / 1e6:.0f} MB before, {after / 1e6:.0f} MB after")


def killed(model: Path, work: Path, sounds: Sequence[Path]) -> None:
    """Ticks while recordings are scored, kill -9, and a new server."""
    with server(model, work) as process:
        for sound in sounds[:6]:
            as_page("POST", f"/sounds?name={sound.name}", sound.read_bytes())
        while as_page("GET", "/state?since=-1")["waiting"]:
            time.sleep(0.05)
        rows = as_page("GET", "/state?since=-1")["rows"]
        for sound in sounds[6:]:  # still waiting when the server is killed
            as_page("POST", f"/sounds?name={sound.name}", sound.read_bytes())
        for row in rows[:4]:
            as_page("POST", "/do/tick", json.dumps({"row": row["id"], "label": "leak"}).encode())
        process.send_signal(signal.SIGKILL)
    with server(model, work):
        state = as_page("GET", "/state?since=-1")
        print(f"after kill -9: labels {state['labels']}, {state['recordings']} recordings, uploads "
              f"{len(list((work / 'uploads').iterdir()))}")  # fmt: skip
    print(f"after its end: {sorted(path.name for path in work.iterdir())}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("sounds", type=Path, nargs="+")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with server(arguments.model, Path(folder) / "load") as process:
            latency(arguments.model, Path(folder))
            load(process, arguments.sounds)
        killed(arguments.model, Path(folder) / "killed", arguments.sounds)


if __name__ == "__main__":
    main()
