"""The page of an untrained model, asked in this process through its ASGI application."""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from leakdet.serving.guard import Guard, Keys
from leakdet.serving.places import Places
from leakdet.serving.server import application
from leakdet.serving.service import Service

TOKEN = "a-token-of-tests-0123456789"
HOST = "127.0.0.1:8765"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"])


class Client:
    """Asks an application as a browser with its cookie does; below /v1 as a machine with the token."""

    def __init__(self, app: Guard, service: Service, keys: Keys) -> None:
        self.app, self.service, self.keys = app, service, keys
        self.loop = asyncio.new_event_loop()

    def close(self) -> None:
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def scope(
        self, method: str, path: str, query: bytes, headers: Iterable[tuple[bytes, bytes]]
    ) -> dict[str, Any]:
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": quote(path, errors="surrogateescape").encode(),
            "query_string": query,
            "root_path": "",
            "headers": list(headers),
            "client": ("127.0.0.1", 40000),
            "server": ("127.0.0.1", 8765),
        }

    async def answer(
        self, scope: dict[str, Any], pieces: Iterable[bytes], whole: bool | None = True
    ) -> Answer:
        """The answer to a body of pieces, `whole`, broken off (False) or not going on (None)."""
        sent: list[dict[str, Any]] = []
        waiting = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
        last = {"type": "http.request", "body": b"", "more_body": False}
        if whole is not None:
            waiting.append(last if whole else {"type": "http.disconnect"})

        async def receive() -> dict[str, Any]:
            if not waiting:
                await asyncio.Event().wait()  # as a client that reads the answer
            return waiting.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start, body = sent[0], b"".join(message.get("body", b"") for message in sent[1:])
        headers = {
            name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]
        }
        return Answer(start["status"], headers, body)

    def ask(
        self,
        path: str,
        body: bytes | dict[str, Any] | None = None,
        method: str = "",
        headers: dict[str, str] | None = None,
        **query: object,
    ) -> Answer:
        """POST where there is a body; `headers` replace those of an honest browser or machine."""
        content = json.dumps(body).encode() if isinstance(body, dict) else body or b""
        sent = {"host": HOST, "content-length": str(len(content))}
        if path.startswith("/v1/"):
            sent["authorization"] = f"Bearer {TOKEN}"
        else:
            sent["cookie"] = f"{self.keys.cookie_name}={self.keys.cookie}"
        if body is not None:
            sent["origin"] = f"http://{HOST}"
        raw = [
            (n.encode(), v.encode("latin-1")) for n, v in {**sent, **(headers or {})}.items() if v
        ]
        method = method or ("GET" if body is None else "POST")
        scope = self.scope(method, path, urlencode(query).encode(), raw)
        return self.loop.run_until_complete(self.answer(scope, [content]))

    def drop(self, *files: Path) -> None:
        """Send files as the page does, and wait until they are scored."""
        for file in files:
            answer = self.ask("/sounds", file.read_bytes(), name=file.name)
            assert answer.status == 200, answer.body
        self.wait()

    def wait(self) -> dict[str, Any]:
        """The state of the page, once nothing waits."""
        until = time.monotonic() + 60
        while (state := self.state())["waiting"] or (state["job"] or {}).get("running"):
            assert time.monotonic() < until
            time.sleep(0.01)
        return state

    def state(self, **query: object) -> dict[str, Any]:
        content: dict[str, Any] = self.ask("/state", since=-1, **query).json
        return content


@pytest.fixture
def serving(tmp_path: Path, example_files: Any) -> Iterator[Callable[..., Client]]:
    """`serving()`: a client of a new server; its work is in `tmp_path/work`, its runs in `runs`."""
    clients: list[Client] = []

    def make(*folders: Path, model: Path | None = example_files.model) -> Client:
        places = Places(folders, tmp_path / "runs", tmp_path / "work")
        service, keys = Service(places, "cpu", []), Keys.made(8765, TOKEN)
        service.open(model)
        client = Client(application(service, keys, "127.0.0.1"), service, keys)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.service.close()
        client.close()


@pytest.fixture
def client(serving: Callable[..., Client]) -> Client:
    return serving()


@pytest.fixture
def sounds(write_sound: Callable[..., Path]) -> list[Path]:
    """Six recordings of half a second at the model's rate."""
    return [write_sound(f"sent/s{n}_20261120_0{n}30.wav", 0.5, 4000, seed=n) for n in range(6)]
