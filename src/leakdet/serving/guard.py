"""Guards every request: its host, its origin, its token, the length of its body.

Three keys are made of one token, so that what lies in a browser's cookie or in the address of a
report is not the token of machines. Requests are not logged, since the first one has the token in
its address.
"""

import hmac
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from html import escape
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from leakdet.core.errors import LeakdetError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_SOUND_BYTES = 200_000_000
MAX_FORM_BYTES = 65_536
SOUND_PATHS = ("/sounds", "/v1/predict")
LEAST_TOKEN = 16  # characters
BEARER = re.compile(r"[A-Za-z0-9._~+/=-]+")
NOWHERE = urlsplit("")
LOOPBACK = ("127.0.0.1", "localhost", "::1")

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; "
        "img-src 'self' data:; media-src 'self' data:; connect-src 'self'; frame-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class RequestError(LeakdetError):
    """A request that is answered with a status of HTTP and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Json(JSONResponse):
    """JSON of ASCII alone, since names of files may hold bytes that are no text."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False).encode("ascii")


def refusal_response(scope: Scope, status: int, sentence: str) -> Response:
    """The sentence as JSON; as a page where a browser navigates."""
    wants_page = "text/html" in Headers(scope=scope).get("accept", "")
    if not wants_page:
        return Json({"error": sentence}, status)
    page = f"<!DOCTYPE html><meta charset=utf-8><title>leakdet</title><p>{escape(sentence)}"
    return HTMLResponse(page.encode(errors="backslashreplace"), status)


@dataclass(frozen=True)
class Keys:
    """The token of machines and of the opened link, and what is made of it."""

    token: str
    cookie_name: str

    @classmethod
    def made(cls, port: int, token: str = "") -> "Keys":
        """Keys of a token that was given, or of a new one. Cookies are of all ports of a host."""
        if token and len(token) < LEAST_TOKEN:
            raise LeakdetError(
                f"LEAKDET_TOKEN has {len(token)} characters; give at least {LEAST_TOKEN}, such as "
                "openssl rand -hex 16 prints."
            )
        if token and not BEARER.fullmatch(token):
            raise LeakdetError(
                "LEAKDET_TOKEN has other signs than letters, digits and -._~+/=, which no header "
                "holds; give one such as openssl rand -hex 16 prints."
            )
        return cls(token or secrets.token_urlsafe(24), f"leakdet-{port}")

    def _derived(self, purpose: str) -> str:
        return hmac.digest(self.token.encode(), purpose.encode(), "sha256").hex()

    @property
    def cookie(self) -> str:
        return self._derived("page")

    @property
    def look(self) -> str:
        """The key in the addresses of reports, whose frames get no cookie."""
        return self._derived("look")

    def set_cookie(self, response: Response) -> None:
        """Let a browser show the page from now on."""
        response.set_cookie(self.cookie_name, self.cookie, httponly=True, samesite="strict")


def is_same(given: str, key: str) -> bool:
    """True if both are the same, in a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode(errors="surrogateescape"), key.encode())


class Guard:
    """An application behind checks; `hosts` are the names by which this server is reached.

    Of a server on all addresses, any address of numbers is one: a page that rebinds a name to this
    machine comes by that name.
    """

    def __init__(self, app: App, keys: Keys, hosts: Iterable[str], any_address: bool) -> None:
        self._app, self._keys = app, keys
        self._hosts, self._any_address = {host.lower() for host in hosts}, any_address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        try:
            headers = Headers(scope=scope)
            self._check_host(headers)
            self._check_key(scope, headers)
            bounded = _bounded(scope, headers, receive)
        except RequestError as refusal:
            answer = refusal_response(scope, refusal.status, str(refusal))
            await answer(scope, receive, send)
            return
        await self._app(scope, bounded, send)

    def _check_host(self, headers: Headers) -> None:
        names = headers.getlist("host")
        host = _split(f"//{names[0]}").hostname or "" if len(names) == 1 else ""
        if host not in self._hosts and not (self._any_address and _is_address(host)):
            known = " or ".join(sorted(self._hosts))
            raise RequestError(403, f"the host {host!r} is not this server; open it as {known}.")
        origins = headers.getlist("origin")
        if any(_split(origin).netloc.lower() != names[0].lower() for origin in origins):
            raise RequestError(403, "another page asks; only the page of this server may.")

    def _check_key(self, scope: Scope, headers: Headers) -> None:
        path = scope["path"]
        if path == "/health":
            return
        if path.startswith("/v1/"):
            kind, _, given = headers.get("authorization", "").partition(" ")
            if kind.lower() != "bearer" or not is_same(given.strip(), self._keys.token):
                raise RequestError(
                    401, "the token is missing or wrong; send Authorization: Bearer TOKEN."
                )
            return
        if path.startswith("/look/"):
            allowed = is_same(path.split("/")[2], self._keys.look)
        elif path == "/" and (tokens := parse_qs(_query(scope)).get("token")):
            allowed = scope["entered"] = is_same(tokens[0], self._keys.token)
        else:
            cookie = Request(scope).cookies.get(self._keys.cookie_name, "")
            allowed = is_same(cookie, self._keys.cookie)
        if not allowed:
            raise RequestError(401, "open the link that leakdet serve printed; it has the token.")


def _query(scope: Scope) -> str:
    return bytes(scope.get("query_string", b"")).decode("latin-1")


def _split(address: str) -> SplitResult:
    """The parts of an address; none of what is no address."""
    try:
        parts = urlsplit(address)
        return parts if parts.hostname and parts.scheme in ("", "http", "https") else NOWHERE
    except ValueError:
        return NOWHERE


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _with_headers(send: Send) -> Send:
    """Add the headers of every answer, where it does not have its own."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def _bounded(scope: Scope, headers: Headers, receive: Receive) -> Receive:
    """Receive a body up to its limit, whatever length it announces."""
    most = MAX_SOUND_BYTES if scope["path"] in SOUND_PATHS else MAX_FORM_BYTES
    too_long = RequestError(413, f"the body is longer than {most:,} bytes; send less at a time.")
    announced = headers.get("content-length", "0")
    if not announced.isascii() or not announced.isdigit():
        raise RequestError(400, f"the content length {announced[:20]!r} is no number.")
    if len(announced) > 15 or int(announced) > most:
        raise too_long
    taken = 0

    async def receiving() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise too_long
        return message

    return receiving
