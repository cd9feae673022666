"""Opens the page of a model: where it listens, who may ask, and the link that is printed."""

import argparse
import asyncio
import os
import socket
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from leakdet.core.errors import InputError, LeakdetError, SettingsError
from leakdet.core.files import locked, require_folder
from leakdet.core.messages import LOG, log_result
from leakdet.core.process import DONE, system_sentence
from leakdet.serving.guard import LOOPBACK, Guard, Keys, RequestError, refusal_response
from leakdet.serving.machines import Machines
from leakdet.serving.pages import Pages
from leakdet.serving.places import Places
from leakdet.serving.service import RUNS, Service, newest_run
from leakdet.storage.model_card import require_model

TOKEN = "LEAKDET_TOKEN"  # environment variable: the token of machines, else a new one each time
ANY = ("0.0.0.0", "::")  # addresses that mean all of this machine
WORK = "leakdet-work"
OPENED = "open.html"
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")  # without one, a browser would be one of text
GRACE_S = 2
MOST_CONNECTIONS = 512


def run_service(arguments: argparse.Namespace) -> int:
    """Do what the arguments of `leakdet serve` ask for, until it is stopped."""
    folders = [_folder(folder) for folder in arguments.folder]
    model = require_model(arguments.model) if arguments.model else newest_run(RUNS)
    with ExitStack() as stack:
        listener = stack.enter_context(_listening(arguments.host, arguments.port))
        port = listener.getsockname()[1]
        work = work_folder(arguments.work, model)
        stack.enter_context(alone(work))
        keys = Keys.made(port, os.environ.get(TOKEN, ""))
        service = Service(
            Places(folders, RUNS.absolute(), work), arguments.device, arguments.trust_network
        )
        try:
            service.open(model)
            log_result(f"ticks    {service.bench.table}")
            open_page(arguments.host, port, keys, work if arguments.browser else None)
            server = server_of(application(service, keys, arguments.host))
            asyncio.run(server.serve(sockets=[listener]))
        finally:
            service.close()
            (work / OPENED).unlink(missing_ok=True)
    return DONE


def _folder(folder: Path) -> Path:
    if not folder.is_dir():
        raise InputError(f"--folder {folder}: there is no such folder.")
    return folder.absolute()


def work_folder(given: Path | None, model: Path | None) -> Path:
    """Where ticks are kept: as given, else beside the model, else in the current folder."""
    folder = given or (model.resolve().parent if model else Path()) / WORK
    require_folder(folder, f"--work {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    return folder.absolute()


@contextmanager
def alone(work: Path) -> Iterator[None]:
    """Refuse a second server of one folder, which would remove the uploads of the first."""
    try:
        with locked(work / ".lock", wait=False):
            yield
    except BlockingIOError as error:
        raise SettingsError(
            f"--work {work}: another leakdet serve keeps its ticks there; open its page, or name "
            "another folder."
        ) from error


def _listening(host: str, port: int) -> socket.socket:
    """The socket of an address. Raises `SettingsError` where it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        unknown = isinstance(error, socket.gaierror)
        reason = error.strerror if unknown else os.strerror(error.errno or 0)
        raise SettingsError(
            f"--host {host} --port {port}: cannot listen there ({reason}). "
            "Give another --port, 0 for a free one, or an address of this machine."
        ) from error


def open_page(host: str, port: int, keys: Keys, private: Path | None) -> None:
    """Print the link, and open it: by a file, since other users see the arguments of a browser."""
    shown = "127.0.0.1" if host in ANY else host
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{port}"
    link = f"{address}/?token={quote(keys.token, safe='')}"
    log_result(f"page     {link}")
    if host not in LOOPBACK:
        LOG.warning(
            f"--host {host}: other machines reach the page, over a connection that is not "
            "encrypted; put a proxy with TLS before it where the network is not yours alone"
        )
    if private is None or not any(map(os.environ.get, SCREENS)):
        return
    file = private / OPENED
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as page:
        page.write(f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={link}">')
    webbrowser.open(file.as_uri())


def application(service: Service, keys: Keys, host: str) -> Guard:
    """The guarded application."""
    machines = Machines(service.engine, service.bench.uploads)
    routes = [*machines.routes(), *Pages(service, keys).routes()]
    handled = (LeakdetError, HTTPException, ClientDisconnect, OSError)
    handlers: Mapping[Any, Any] = dict.fromkeys(handled, _answer)
    app = Starlette(routes=routes, exception_handlers=handlers)
    names = {*LOOPBACK, host, *([socket.gethostname(), socket.getfqdn()] if host in ANY else [])}
    return Guard(app, keys, names, host in ANY)


async def _answer(request: Request, error: Exception) -> Response:
    """What a request gets that went wrong: a status and a sentence."""
    match error:
        case RequestError(status=status):
            sentence = str(error)
        case HTTPException(status_code=404 as status):
            sentence = "there is no such page."
        case HTTPException(status_code=status, detail=sentence):
            pass
        case OSError():
            status, sentence = 503, system_sentence(error)
        case ClientDisconnect():
            status, sentence = 400, "the request broke off."
        case _:
            status, sentence = 400, str(error)
    return refusal_response(request.scope, status, sentence)


def server_of(app: Guard) -> uvicorn.Server:
    """What answers until a signal comes. No access is logged, since a link holds the token."""
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        log_level="error",
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,
    )
    return uvicorn.Server(config)
