"""The page in a browser, and the examples of docs/how/serve.md, against a server on a port."""

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.browsers import Browser, chromium
from tests.unit.serving.conftest import TOKEN, Client

from leakdet.core.errors import SettingsError
from leakdet.serving.guard import Keys
from leakdet.serving.server import _listening, alone, open_page, server_of
from leakdet.tables.read import read_table
from pages import blocks

PAGE = Path(__file__).parents[3] / "docs/how/serve.md"


@contextmanager
def listening(client: Client) -> Iterator[int]:
    """The port at which the client's application answers, in a thread."""
    server = server_of(client.app)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serve = server.serve(sockets=[listener])
        thread = threading.Thread(target=asyncio.run, args=(serve,))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(30)
        assert not thread.is_alive()


def test_without_the_extra_the_command_that_installs_it_is_told(
    door: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leakdet.core.errors.find_spec", lambda name: name != "uvicorn" or None)
    result = door("serve", cwd=tmp_path)
    assert result.returncode == 2
    assert "not installed: uvicorn, of" in result.stderr
    assert "[serve]'" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_second_server_of_the_same_folder_is_refused(tmp_path: Path) -> None:
    with (
        alone(tmp_path),
        pytest.raises(SettingsError, match="another leakdet serve"),
        alone(tmp_path),
    ):
        pass


def test_the_examples_of_the_docs_give_the_row(
    client: Client, sounds: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    row = client.ask("/v1/predict", sounds[0].read_bytes(), name="0.wav").json
    (tmp_path / "new").mkdir()
    shutil.copy(sounds[0], tmp_path / "new/0.wav")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEAKDET_TOKEN", TOKEN)
    examples = {b.language: b.text for b in blocks(PAGE.read_text("utf-8")) if b.language}
    with listening(client) as port:
        code = examples["python"].replace("8765", str(port))
        exec(compile(code, PAGE.name, "exec"), {})
        assert capsys.readouterr().out.startswith(
            f"{row['decision']} {row['reason']} {row['leak_prob']}"
        )
        if shutil.which("curl"):
            command = examples["sh"].replace("8765", str(port))
            run = subprocess.run(
                ["bash", "-c", command], capture_output=True, text=True, check=True
            )
            assert f'"leak_prob": {row["leak_prob"]}' in run.stdout


def test_a_host_without_an_address_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def create_server(*address: Any, **options: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("socket.create_server", create_server)
    facts = "--host nowhere --port 1: .*Name or service not known"
    with pytest.raises(SettingsError, match=facts), _listening("nowhere", 1):
        pass


def test_the_browser_is_given_a_private_file_and_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: pytest.LogCaptureFixture
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    keys = Keys.made(8765, TOKEN)
    open_page("::", 8765, keys, None)
    monkeypatch.setenv("DISPLAY", ":0")
    open_page("127.0.0.1", 8765, keys, tmp_path)
    (file,) = tmp_path.iterdir()
    assert opened == [file.as_uri()]
    assert file.stat().st_mode & 0o777 == 0o600
    assert f"http://127.0.0.1:8765/?token={TOKEN}" in file.read_text()
    assert "not encrypted" in messages.text


class RealServer:
    """`leakdet serve` in a child of this process, asked over its port as the page asks."""

    def __init__(self, forked: Any, model: Path, work: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        words = ("--port", str(self.port), "--no-browser", "--device", "cpu", "--work", work)
        self.process = forked("serve", model, *words, cwd=work.parent)
        keys = Keys.made(self.port, TOKEN)
        self.headers = {
            "Cookie": f"{keys.cookie_name}={keys.cookie}",
            "Origin": f"http://127.0.0.1:{self.port}",
        }
        until = time.monotonic() + 60
        while not self._listens():
            assert self.process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)

    def _listens(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(self.ask("GET", "/state?since=-1"))
        return False

    def ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, self.headers)
            return json.loads(connection.getresponse().read())

    def end(self, number: int) -> str:
        os.kill(self.process.pid, number)
        printed: str = self.process.wait()
        return printed


def test_a_killed_server_loses_no_tick_and_a_stopped_one_leaves_ticks_alone(
    forked: Any,
    example_files: Any,
    sounds: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LEAKDET_TOKEN", TOKEN)
    work = tmp_path / "work"
    first = RealServer(forked, example_files.model, work)
    for sound in sounds[:3]:
        first.ask("POST", f"/sounds?name={sound.name}", sound.read_bytes())
    while (state := first.ask("GET", "/state?since=-1"))["waiting"]:
        time.sleep(0.02)
    tick = {"row": state["rows"][0]["id"], "label": "leak"}
    first.ask("POST", "/do/tick", json.dumps(tick).encode())
    first.end(signal.SIGKILL)
    assert len(list((work / "uploads").iterdir())) == 3
    again = RealServer(forked, example_files.model, work)
    assert again.ask("GET", "/state?since=-1")["labels"] == {"leak": 1}
    printed = again.end(signal.SIGTERM)
    assert again.process.returncode == 128 + signal.SIGTERM
    assert [line for line in printed.splitlines() if TOKEN in line] == [
        f"page     http://127.0.0.1:{again.port}/?token={TOKEN}"
    ]
    assert "Traceback" not in printed
    assert sorted(path.name for path in work.iterdir()) == [".lock", "confirm.csv", "sounds"]


@pytest.fixture
def twenty(write_sound: Callable[..., Path]) -> list[Path]:
    """Twenty recordings; every second one hums, and one has a name of HTML."""
    files = []
    for number in range(20):
        noise = 0.1 * np.random.default_rng(number).standard_normal(12000)
        hum = 0.3 * (number % 2) * np.sin(0.9 * np.arange(12000))
        name = f"sent/{number:02}_{'leak' if number % 2 else 'quiet'}{'<b>x' * (number == 4)}.wav"
        files.append(write_sound(name, samples=noise + hum, rate_hz=4000))
    return files


ROWS = "[...document.querySelectorAll('#rows .row')]"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    chromium()
    browser = Browser(tmp_path / "profile")
    yield browser
    browser.close()


def by_keyboard(browser: Browser, selector: str) -> None:
    """Press Tab until the element has the focus, and then Enter."""
    for _ in range(80):
        if browser.run(f"document.activeElement?.matches({selector!r})"):
            browser.press("Enter")
            return
        browser.press("Tab")
    pytest.fail(f"Tab does not lead to {selector}")


def tick(browser: Browser, wanted: dict[str, int]) -> None:
    """Walk down the list by keys, and tick so many leaks and quiet ones, as their names say."""
    keys = {"leak": "l", "quiet": "n"}
    while any(wanted.values()):
        before = browser.run("document.querySelector('#rows [aria-current]')?.dataset.id ?? ''")
        browser.press("j")
        current = f"document.querySelector(`#rows [aria-current]:not([data-id='{before}']) .name`)"
        name = browser.until(f"{current}?.textContent")
        kind = "leak" if "leak" in name else "quiet"
        if wanted[kind]:
            wanted[kind] -= 1
            browser.until(f"document.querySelector('#content h2')?.textContent === {name!r}")
            browser.press(keys[kind])
            browser.until("document.querySelector('#ticks [aria-pressed=true]') !== null")


@pytest.mark.slow
def test_drop_hear_tick_learn_switch_and_score_again(
    client: Client, browser: Browser, twenty: list[Path], tmp_path: Path
) -> None:
    with listening(client) as port:
        browser.show(1280, 900)
        browser.go(f"http://127.0.0.1:{port}/?token={TOKEN}")
        browser.until("location.search === '' && document.querySelector('#model')?.textContent")
        browser.drop(twenty, "#drop")
        scored = f"{ROWS}.filter(row => row.querySelector('.prob').textContent !== '–')"
        browser.until(f"{scored}.length === 20")
        probs = browser.run(f"{ROWS}.map(row => Number(row.querySelector('.prob').textContent))")
        assert probs == sorted(probs, reverse=True)
        assert browser.run(f"{ROWS}.some(row => row.textContent.includes('quiet<b>x.wav'))")

        tick(browser, {"leak": 2, "quiet": 2})
        rows = [row for _, row in read_table(tmp_path / "work/confirm.csv").rows]
        assert sorted(row["label"] for row in rows) == ["leak", "leak", "no_leak", "no_leak"]
        assert all(("leak" in row["path"]) == (row["label"] == "leak") for row in rows)
        player = "document.querySelector('#content audio')"
        browser.until(f"{player}?.readyState >= 2")
        browser.press("p")
        browser.until(f"{player}.currentTime > 0")

        first = browser.run("document.querySelector('#model').textContent")
        by_keyboard(browser, "[data-part=learn]")
        by_keyboard(browser, "#start-learn")
        browser.until("!document.querySelector('#switch').hidden", 120)
        assert "before" in browser.run("document.querySelector('#learnt-sentence').textContent")
        by_keyboard(browser, "#switch")
        browser.until(f"document.querySelector('#model').textContent !== {first!r}")
        by_keyboard(browser, "[data-part=score]")
        browser.until(f"{scored}.length === 20")
        by_keyboard(browser, "[data-part=look]")
        browser.until("document.querySelector('#pages').options.length === 2")

        for width in (1280, 390):
            for part in ("look", "learn", "score"):
                browser.show(width, 844, dark=width == 390)
                browser.run(f"document.querySelector('[data-part={part}]').click()")
                assert browser.run("document.documentElement.scrollWidth <= innerWidth"), (
                    width,
                    part,
                )
        assert browser.errors == []
        assert client.service.jobs.latest is not None
        assert client.service.jobs.latest.error == ""
