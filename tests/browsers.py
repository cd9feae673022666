"""The browser in which pages are tried, and one that is driven by its DevTools protocol."""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

QUIET = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--mute-audio",
)
QUIET += (
    "--disable-audio-output",
    "--autoplay-policy=no-user-gesture-required",
    "--no-first-run",
    "--disable-extensions",
)
CODES = {"Enter": 13, "Tab": 9}


def chromium() -> str:
    """Where Chromium or Chrome is installed; without one, the test is skipped."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("no Chromium is installed")
    return path


class Browser:
    """A page of a headless Chromium, driven through a pair of pipes: no port, no other package."""

    def __init__(self, profile: Path) -> None:
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        command = [chromium(), *QUIET, f"--user-data-dir={profile}", "--remote-debugging-pipe"]
        numbered = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'  # where it looks for its pipes
        self._process = subprocess.Popen(
            ["bash", "-c", numbered, "bash", *command, "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._number, self._session, self._read = 0, "", b""
        self.errors: list[str] = []  # what the page's console complains of
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "DOM", "Log"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        os.close(self._in)
        os.close(self._out)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask for something, and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, (method, answer)
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser has ended"
            self._read += piece
        message, _, self._read = self._read.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        return parsed

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(event["params"])[:500])
        if event.get("method") == "Log.entryAdded":
            entry = event["params"]["entry"]
            if entry["level"] in ("error", "warning"):
                self.errors.append(f"{entry['text']} {entry.get('url', '')}")

    def run(self, script: str) -> Any:
        """The value of an expression in the page, once it is settled."""
        asked = {"expression": script, "awaitPromise": True, "returnByValue": True}
        result = self.send("Runtime.evaluate", **asked, userGesture=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, script: str, seconds: float = 30.0) -> Any:
        """The value of an expression, once it is true."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < end, script
            time.sleep(0.05)
        return value

    def go(self, url: str) -> None:
        self.send("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def drop(self, files: Sequence[Path], selector: str) -> None:
        """Drop files onto an element, as from a file manager."""
        box = f"document.querySelector({selector!r}).getBoundingClientRect()"
        at = {"x": self.run(f"{box}.left") + 20, "y": self.run(f"{box}.top") + 20}
        data = {"items": [], "files": [str(file) for file in files], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.send("Input.dispatchDragEvent", type=kind, **at, data=data)

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            code = CODES.get(key, ord(key.upper()[0]))
            text = {"text": "\r" if key == "Enter" else key} if key != "Tab" else {}
            common = {"key": key, "windowsVirtualKeyCode": code}
            self.send("Input.dispatchKeyEvent", type="keyDown", **common, **text)
            self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def show(self, width: int, height: int, dark: bool = False) -> None:
        """Take a size, and a light or dark scheme."""
        phone = width < 600
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))
